"""A constraint file on a corpus: which documents, which labels, which model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flows.options import parse_options
from flows.progress import meter
from flows.sources import LateRegistry, find_document, first_documents, open_model
from schemas.audit import CheckReport, CountedWeight, Explanation, WeighReport
from schemas.document import Batch
from schemas.labels import LabelSet
from workers.audit.auditing import check, explain
from workers.constraints.constraint_file import load_constraints
from workers.constraints.constraint_writer import constraints_text
from workers.corpus.parquet import CorpusError
from workers.corpus.plan import plan
from workers.corpus.shards import Shard, read_batch
from workers.inference.registry import Decoder, solver_named
from workers.learning.penalties import (
    Penalty,
    PenaltySettings,
    RowCounts,
    count_rows,
    penalty_named,
    row_weights,
    with_weights,
)
from workers.models.model import score_column
from workers.storage.files import write_whole

DIGITS = 3
"""Decimals of nats that a file shows: counts say no more."""


def check_file(
    file: Path,
    corpus: str,
    *,
    model: str | None,
    engine: str,
    options: Sequence[str],
    documents: int,
    conflict_documents: int,
    seed: int,
    tracking: str | None,
) -> CheckReport:
    """`workers.audit.auditing.check` on the first ``documents`` documents of a corpus.

    Without a model the labels are those of the corpus' gold. Raises `OptionError`, `EngineError`, and what
    reading corpus, model and file raises.
    """
    decoder = _decoder(engine, options, seed)
    constraints = load_constraints(file)
    opened = None if model is None else open_model(model, LateRegistry(tracking)).model
    shards = plan(corpus, scores=None if opened is None else score_column(opened))
    total = min(documents, sum(shard.rows for shard in shards))
    labels = opened.labels if opened is not None else _gold_labels(corpus, shards)
    with meter("checking", total) as bar:
        return check(
            first_documents(shards, documents),
            constraints,
            labels,
            model=opened,
            decoder=None if engine == "viterbi" else decoder,
            conflict_documents=conflict_documents,
            progress=bar.advance,
        )


def weigh_file(file: Path, corpus: str, *, penalty: str, options: Sequence[str], out: Path | None) -> WeighReport:
    """The weights of a file's constraints counted on a corpus; ``out`` is the same file with them.

    Raises `PenaltyError`, `OptionError`, `OutputError`, `CorpusError` where no document has gold labels, and what
    reading corpus and file raises.
    """
    cost, settings = penalty_named(penalty), parse_options(options, PenaltySettings, owner=f"penalty {penalty}")
    constraints, shards = load_constraints(file), plan(corpus)
    labels = _gold_labels(corpus, shards)
    constraints.bind(labels)
    total = sum(shard.rows for shard in shards)
    with meter("counting", total) as bar:
        gold = _Gold(shards, bar.advance)
        counts = count_rows(constraints, gold, labels)
    rows = [_counted(name, weight, counts[name], cost, settings) for name, weight in row_weights(constraints)]
    if out is not None:
        weighed = with_weights(constraints, {row.name: row.weight for row in rows})
        write_whole(out, constraints_text(weighed, {row.name: _comment(row) for row in rows}).encode())
    return WeighReport(
        documents=gold.documents,
        without_gold=gold.without,
        rejected=gold.rejected,
        penalty=penalty,
        constraints=tuple(rows),
        out=None if out is None else str(out),
    )


@dataclass
class _Gold:
    """The batches of a corpus that have gold labels; counts documents with and without, and rows that are rejects."""

    shards: Sequence[Shard]
    progress: Callable[[int], None]
    documents: int = 0
    without: int = 0
    rejected: int = 0

    def __iter__(self) -> Iterator[Batch]:
        for shard in self.shards:
            batch, rejects = read_batch(shard)
            self.rejected += len(rejects)
            if batch.labels is None:
                self.without += len(batch)
            else:
                self.documents += len(batch)
                yield batch
            self.progress(shard.rows)


def _counted(name: str, before: float, counts: RowCounts, penalty: Penalty, settings: PenaltySettings) -> CountedWeight:
    low, high = counts.interval(penalty, settings)
    weight = before if math.isinf(before) else round(counts.weight(penalty, settings), DIGITS)
    return CountedWeight(name=name, before=before, weight=weight, low=low, high=high, **counts._asdict())


def _comment(row: CountedWeight) -> str:
    share = f", {row.broken:,} of them broken" if row.broken else ", none broken"
    return f"{row.rows:,} rows with their antecedent{share}; {row.low:.2f} to {row.high:.2f} nats"


def explain_document(
    file: Path,
    corpus: str,
    doc_id: str,
    *,
    model: str,
    engine: str,
    options: Sequence[str],
    seed: int,
    tracking: str | None,
) -> Explanation:
    """`workers.audit.auditing.explain` on one document of a corpus.

    Raises `CorpusError` where the document is not there, `OptionError`, `EngineError`, and what reading raises.
    """
    decoder = _decoder(engine, options, seed)
    opened = open_model(model, LateRegistry(tracking)).model
    constraints = load_constraints(file).bind(opened.labels)
    document = find_document(corpus, doc_id, scores=score_column(opened))
    potentials = opened.potentials(Batch.of([document]))
    return explain(document, potentials, constraints, opened.labels, decoder=decoder)


def _decoder(engine: str, options: Sequence[str], seed: int) -> Decoder:
    return Decoder(engine, parse_options(options, solver_named(engine).settings, owner=f"engine {engine}"), seed)


def _gold_labels(corpus: str, shards: Sequence[Shard]) -> LabelSet:
    """The labels of the whole corpus: a rare one need not be among the first documents."""
    names: set[str] = set()
    for shard in shards:
        batch, _ = read_batch(shard)
        if batch.labels is not None:
            names.update(batch.labels.values[i] for i in np.unique(batch.labels.codes).tolist())
    if not names:
        raise CorpusError(f"{corpus}: has no gold labels; give a labelled corpus (or, to check, a model)")
    return LabelSet.infer(names)
