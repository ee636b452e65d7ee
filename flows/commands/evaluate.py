"""Predictions against gold: what `concord evaluate` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flows.progress import meter
from flows.runfolder.published import Published, published
from schemas.columns import DOC_ID, LABELS, PREDICTIONS
from schemas.decoded import Status
from schemas.document import Batch
from schemas.errors import InputError
from schemas.labels import Labels, LabelSet
from schemas.reports import EvaluationReport
from workers.corpus.plan import plan
from workers.corpus.shards import read_batch
from workers.evaluation.changes import EntityChanges
from workers.evaluation.conlleval import EntityCounts
from workers.evaluation.tally import Tally
from workers.labelling.output import PREDICTIONS as FOLDER
from workers.labelling.shard import VITERBI_LABELS


class EvaluationError(InputError):
    """Predictions and gold that do not belong together; says which document."""


class Evaluation(NamedTuple):
    """The report, and what joint inference changed against Viterbi: its entities and the differences.

    ``unfinished`` shards of a later run are done in the folder; they are not part of the report.
    """

    report: EvaluationReport
    before: EntityCounts
    changes: EntityChanges
    unfinished: int


def evaluate(predictions: str, gold: str) -> Evaluation:
    """Scores the whole run in an output folder against a corpus with gold labels.

    Every gold document needs a prediction; predictions without gold are left out. Raises
    `PublishedError` where the folder holds no whole run, `EvaluationError`, `CorpusError` and `SchemaError`.
    """
    run = published(predictions)
    answers = _Answers.read(run)
    tally, before, changes = Tally.empty(), EntityCounts.empty(), EntityChanges.empty()
    shards = plan(gold)
    with meter("evaluating", sum(shard.rows for shard in shards)) as bar:
        for shard in shards:
            batch, _ = read_batch(shard)
            bar.advance(shard.rows)
            if not len(batch):
                continue
            if batch.labels is None:
                raise EvaluationError(f"{shard.file.path}: no gold labels (column {LABELS!r}) to compare with")
            rows = answers.rows_of(batch, gold=gold, predictions=predictions)
            labels, wanted, given, first = answers.labellings(batch, rows)
            starts = batch.sentence_starts
            tally += Tally.of(
                wanted,
                given,
                labels,
                starts,
                certified=answers.certified[rows],
                by_solver=answers.by_solver[rows],
                gaps=answers.gaps[rows],
            )
            before += EntityCounts.of(wanted, first, labels, starts)
            changes += EntityChanges.of(wanted, first, given, labels, starts)
    return Evaluation(tally.report(), before, changes, run.unfinished)


@dataclass(frozen=True, eq=False)
class _Answers:
    """All predictions: document i has label codes ``starts[i]:starts[i + 1]`` of ``given`` and ``first``."""

    row: dict[str, int]
    starts: NDArray[np.int64]
    given: Labels
    first: Labels
    names: Sequence[str]
    certified: NDArray[np.bool_]
    by_solver: NDArray[np.bool_]
    gaps: NDArray[np.float64]

    @classmethod
    def read(cls, run: Published) -> _Answers:
        """All prediction files of a run. Raises `PublishedError`, and `EvaluationError` where there are none."""
        columns = [DOC_ID, LABELS, VITERBI_LABELS, "certified", "status", "gap"]
        tables = []
        for table in run.tables(FOLDER, PREDICTIONS):
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
            encoded.chunk(0).dictionary.to_pylist() if encoded.num_chunks else [],
            table["certified"].to_numpy(),
            np.array([status == Status.BY_SOLVER for status in table["status"].to_pylist()], np.bool_),
            table["gap"].to_numpy(),
        )

    def rows_of(self, batch: Batch, *, gold: str, predictions: str) -> NDArray[np.int64]:
        """(D,) the prediction of each document. Raises `EvaluationError` naming the first that has none."""
        missing = [doc_id for doc_id in batch.doc_ids if doc_id not in self.row]
        if missing:
            raise EvaluationError(
                f"{predictions}: no prediction for document {missing[0]!r} of {gold}; "
                "finish the run (`concord reprocess` with the same options), or give the corpus it was run on"
            )
        rows = np.array([self.row[doc_id] for doc_id in batch.doc_ids], np.int64)
        lengths = np.diff(self.starts)[rows]
        for i in np.flatnonzero(lengths != np.diff(batch.doc_starts)).tolist():
            raise EvaluationError(
                f"document {batch.doc_ids[i]!r} has {np.diff(batch.doc_starts)[i]} tokens in {gold} "
                f"and {lengths[i]} in {predictions}"
            )
        return rows

    def labellings(self, batch: Batch, rows: NDArray[np.int64]) -> tuple[LabelSet, Labels, Labels, Labels]:
        """A label set for both sides, and in its ids (N,): gold, the engine's answer, Viterbi's."""
        assert batch.labels is not None
        labels = LabelSet.infer([*self.names, *batch.labels.values])
        table = labels.encode(self.names)
        at = np.concatenate([np.arange(self.starts[r], self.starts[r + 1]) for r in rows.tolist()])
        gold = labels.encode(batch.labels.values)[batch.labels.codes]
        return labels, gold, table[self.given[at]], table[self.first[at]]


def _pair(encoded: pa.ChunkedArray) -> list[pa.DictionaryArray]:
    """The two chunks of labels; an empty array where there is nothing at all."""
    if encoded.num_chunks == 2:
        return list(encoded.chunks)
    empty = pa.array([], pa.string()).dictionary_encode()
    return [empty, empty]
