"""Predictions against gold: `concord evaluate`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from concord.flows.runfolder.published import Published, published
from concord.flows.runfolder.runfolder import documents_of_run
from concord.flows.screen.progress import meter, say
from concord.schemas.columns import DOC_ID, LABELS, PREDICTIONS_LAYOUT, VITERBI_LABELS
from concord.schemas.decoded import Status
from concord.schemas.document import Batch
from concord.schemas.errors import InputError
from concord.schemas.label_names import gold_label_set
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.reports import AgainstReport, Difference, EvaluationReport, MeasureReport
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import read_batch
from concord.workers.evaluation.bootstrap import bootstrap_intervals, paired_bootstraps
from concord.workers.evaluation.figures import FIGURES
from concord.workers.evaluation.measures import MEASURES, ByDocument, Pair, by_document, check_measures, suggested
from concord.workers.evaluation.named_counts import Counts
from concord.workers.evaluation.tally import Tally
from concord.workers.labelling.output import PREDICTIONS


class EvaluationError(InputError):
    """Predictions and gold that do not belong together; the message names a document."""


class Evaluation(NamedTuple):
    """An evaluation.

    - ``report``: the report.
    - ``unfinished``: number of finished shards of a later, unfinished run, by the name of the folder; they are not part
      of the report.
    """

    report: EvaluationReport
    unfinished: Mapping[str, int]


def evaluate(
    predictions: str, gold: str, *, measures: Sequence[str] | None = None, against: str | None = None
) -> Evaluation:
    """Scores the whole run in an output folder against a corpus with gold labels.

    - ``measures``: names of `MEASURES` (None: those of `suggested`).
    - ``against``: folder of another run. If it is given, the documents of both runs are scored and compared.

    Every gold document that the run was asked for needs a prediction; predictions without gold are left out. Raises
    `PublishedError` if a folder has no whole run, `UsageError` for an unknown measure, `MeasureError`,
    `EvaluationError`, `CorpusError` and `SchemaError`.
    """
    check_measures(measures or ())
    run = published(predictions)
    mine = _GivenLabels.read(run)
    batches = _gold_batches(gold, documents_of_run(run.storage))
    first = next(batches, Batch.of([]))
    plain = first.labels is not None and first.labels.plain
    chosen = tuple(dict.fromkeys(measures or suggested(LabelSet.infer(mine.names, plain=plain), first)))
    other = None if against is None else published(against)
    rival = None if other is None else _OtherRun(_GivenLabels.read(other), chosen)
    tally, scored = Tally.empty(chosen), _CountsByDocument(chosen)
    for whole in chain([first], batches):
        batch = whole if rival is None else rival.shared(whole, mine)
        if not len(batch):
            continue
        rows = mine.rows_of(batch, gold=gold)
        pair, viterbi = mine.pair(batch, rows, more=() if rival is None else rival.answers.names)
        given = {"certified": mine.certified[rows], "by_solver": mine.by_solver[rows]}
        tally += Tally.of(pair, viterbi, chosen, gaps=mine.gaps[rows], **given)
        scored.add(pair)
        if rival is not None:
            rival.add(pair, mine, gold=gold)
    report = scored.with_intervals(tally.report())
    if rival is not None:
        report = report.model_copy(update={"against": rival.compared(scored, predictions)})
    folders = [run] if other is None else [run, other]
    return Evaluation(report, {folder.uri: folder.unfinished for folder in folders if folder.unfinished})


def _gold_batches(gold: str, only: frozenset[str] | None) -> Iterator[Batch]:
    """The batches of a corpus, or of its documents ``only``. Raises `EvaluationError` for one without gold labels."""
    shards = plan(gold)
    if only is not None:
        say(f"the run is of {len(only):,} documents alone; other gold documents are left out")
    with meter("evaluating", sum(shard.rows for shard in shards)) as bar:
        for shard in shards:
            batch, _ = read_batch(shard)
            bar.advance(shard.rows)
            if len(batch) and batch.labels is None:
                raise EvaluationError(f"{shard.file.path}: no gold labels (column {LABELS!r}) to compare with")
            if only is None:
                yield batch
            else:
                yield Batch.of([document for document in batch if document.doc_id in only])


@dataclass(frozen=True, eq=False)
class _GivenLabels:
    """All predictions of a run; document i has the tokens ``starts[i]:starts[i + 1]``.

    - ``row``: number of each document, by id.
    - ``given``, ``first``: labels of the engine and of Viterbi, as indices of ``names``.
    - ``uri``: the run.
    - ``names``: names of the labels.
    - ``certified``, ``by_solver``: masks of the documents whose gap is closed, and by CP-SAT's word alone.
    - ``gaps``: gap of each document, in nats.
    """

    row: dict[str, int]
    starts: NDArray[np.int64]
    given: Labels
    first: Labels
    uri: str
    names: Sequence[str]
    certified: NDArray[np.bool_]
    by_solver: NDArray[np.bool_]
    gaps: NDArray[np.float64]

    @classmethod
    def read(cls, run: Published) -> _GivenLabels:
        """Reads all prediction files of a run. Raises `PublishedError`, and `EvaluationError` if there are none."""
        columns = [DOC_ID, LABELS, VITERBI_LABELS, "certified", "status", "gap"]
        tables = []
        for table in run.tables(PREDICTIONS, PREDICTIONS_LAYOUT):
            whole = (
                table if VITERBI_LABELS in table.column_names else table.append_column(VITERBI_LABELS, table[LABELS])
            )
            tables.append(whole.select(columns).replace_schema_metadata())
        if not tables:
            raise EvaluationError(f"{run.uri}: the run has no predictions; its corpus was empty")
        table = pa.concat_tables(tables)
        row = {doc_id: i for i, doc_id in enumerate(table[DOC_ID].to_pylist())}
        lists = table[LABELS].combine_chunks()
        lengths = lists.value_lengths().to_numpy(zero_copy_only=False)
        flat = pa.chunked_array([lists.flatten(), table[VITERBI_LABELS].combine_chunks().flatten()])
        encoded = flat.dictionary_encode().unify_dictionaries()
        given, first = (chunk.indices.to_numpy().astype(np.int32) for chunk in _pair(encoded))
        return cls(
            row,
            np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            given,
            first,
            run.uri,
            encoded.chunk(0).dictionary.to_pylist() if encoded.num_chunks else [],
            table["certified"].to_numpy(),
            np.array([status == Status.BY_SOLVER for status in table["status"].to_pylist()], np.bool_),
            table["gap"].to_numpy(),
        )

    def rows_of(self, batch: Batch, *, gold: str) -> NDArray[np.int64]:
        """(D,) number of each document's prediction. Raises `EvaluationError` that names the first without one."""
        missing = [doc_id for doc_id in batch.doc_ids if doc_id not in self.row]
        if missing:
            raise EvaluationError(
                f"{self.uri}: no prediction for document {missing[0]!r} of {gold}; "
                "finish the run (`concord reprocess` with the same options), or give the corpus it was run on"
            )
        rows = np.array([self.row[doc_id] for doc_id in batch.doc_ids], np.int64)
        lengths = np.diff(self.starts)[rows]
        for i in np.flatnonzero(lengths != np.diff(batch.doc_starts)).tolist():
            raise EvaluationError(
                f"document {batch.doc_ids[i]!r} has {np.diff(batch.doc_starts)[i]} tokens in {gold} "
                f"and {lengths[i]} in {self.uri}; cut both into tokens in the same way (spans are read with words cut "
                "at hyphens; raw text is with `--set split_hyphens=true`), and run again"
            )
        return rows

    def pair(self, batch: Batch, rows: NDArray[np.int64], *, more: Sequence[str] = ()) -> tuple[Pair, Labels]:
        """Gold and the engine's answer in a label set of all labels and ``more``, and Viterbi's answer (N,) in it.

        Raises `LabelError` where the gold labels are of no scheme.
        """
        assert batch.labels is not None
        plain = batch.labels.plain
        gold_label_set(batch.labels.used(), plain=plain)
        labels = LabelSet.infer([*self.names, *batch.labels.values, *more], plain=plain)
        table = labels.encode(self.names)
        at = np.concatenate([np.arange(self.starts[r], self.starts[r + 1]) for r in rows.tolist()])
        gold = labels.encode(batch.labels.values)[batch.labels.codes]
        return Pair(batch, labels, gold, table[self.given[at]]), table[self.first[at]]


class _CountsByDocument:
    """Counts of a run by document, for the bootstrap.

    - ``ids``: of the documents.
    - ``parts``: counts of the batches, by measure.
    """

    def __init__(self, measures: Sequence[str]) -> None:
        self.ids: list[str] = []
        self.parts: dict[str, list[ByDocument]] = {name: [] for name in measures}

    def add(self, pair: Pair) -> None:
        """Counts a batch."""
        self.ids += pair.batch.doc_ids
        for name, parts in self.parts.items():
            parts.append(by_document(name, pair))

    def names(self, measure: str) -> set[str]:
        """Names that occur."""
        return {name for part in self.parts[measure] for name in part.names}

    def table(self, measure: str, names: Sequence[str]) -> Counts:
        """(D, K, 3) counts for K names, by document in the order of their ids: draws are those of no other order."""
        order = sorted(range(len(self.ids)), key=self.ids.__getitem__)
        return np.concatenate([part.table_of(names) for part in self.parts[measure]])[order]

    def with_intervals(self, report: EvaluationReport) -> EvaluationReport:
        """The report with an interval of each figure; without any where there are no documents."""
        if not self.ids:
            return report
        found = {name: self._with_intervals(name, measure) for name, measure in report.measures.items()}
        return report.model_copy(update={"measures": found})

    def _with_intervals(self, name: str, measure: MeasureReport) -> MeasureReport:
        figures = {figure: FIGURES[figure] for figure in measure.figures}
        table = self.table(name, sorted(self.names(name)))
        found = bootstrap_intervals(table, figures, rng=np.random.default_rng(0))
        return measure.model_copy(update={"intervals": {name: (row.low, row.high) for name, row in found.items()}})


class _OtherRun:
    """Another run, which the scored one is compared with, and the documents of one of them alone."""

    def __init__(self, answers: _GivenLabels, measures: Sequence[str]) -> None:
        self.answers = answers
        self.only_here: list[str] = []
        self.only_there: list[str] = []
        self.counts = _CountsByDocument(measures)

    def shared(self, batch: Batch, mine: _GivenLabels) -> Batch:
        """The documents of a batch that both runs have, or neither has; those of one run alone are noted."""
        here, there = ([doc_id in known for doc_id in batch.doc_ids] for known in (mine.row, self.answers.row))
        self.only_here += [d for d, a, b in zip(batch.doc_ids, here, there, strict=True) if a and not b]
        self.only_there += [d for d, a, b in zip(batch.doc_ids, here, there, strict=True) if b and not a]
        if here == there:
            return batch
        return Batch.of([batch.document(i) for i in np.flatnonzero(np.equal(here, there)).tolist()])

    def add(self, pair: Pair, mine: _GivenLabels, *, gold: str) -> None:
        """Counts a batch; ``pair`` has the first run's answers. Raises `EvaluationError`."""
        theirs, _ = self.answers.pair(pair.batch, self.answers.rows_of(pair.batch, gold=gold), more=mine.names)
        self.counts.add(theirs)

    def compared(self, scored: _CountsByDocument, predictions: str) -> AgainstReport:
        """Report of the comparison of ``scored``, the same documents. Raises `EvaluationError` if there are none."""
        if not scored.ids:
            raise EvaluationError(
                f"{predictions} and {self.answers.uri} have no gold document in common; give runs of one corpus"
            )
        return AgainstReport(
            run=self.answers.uri,
            only_here=tuple(self.only_here),
            only_there=tuple(self.only_there),
            measures={name: _differences(name, self.counts, scored) for name in scored.parts},
        )


def _differences(measure: str, base: _CountsByDocument, other: _CountsByDocument) -> dict[str, Difference]:
    """Differences of a measure's figures between two runs of the same documents."""
    names = sorted(base.names(measure) | other.names(measure))
    tables = base.table(measure, names), other.table(measure, names)
    figures = {name: FIGURES[name] for name in MEASURES[measure].figures}
    found = paired_bootstraps(*tables, figures, rng=np.random.default_rng(0))
    before = tables[0].sum(axis=0)
    return {name: Difference.from_results(row, other=float(figures[name](before))) for name, row in found.items()}


def _pair(encoded: pa.ChunkedArray) -> list[pa.DictionaryArray]:
    """The chunks of labels; one empty array if there are none."""
    if encoded.num_chunks == 2:
        return list(encoded.chunks)
    empty = pa.array([], pa.string()).dictionary_encode()
    return [empty, empty]
