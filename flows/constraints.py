"""A constraint file on a corpus: which documents, which labels, which model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from flows.options import OptionError, parse_options
from flows.progress import meter
from flows.shards import plan
from schemas.audit import CheckReport, Explanation
from schemas.document import Batch, Document
from schemas.labels import LabelSet
from workers.auditing import Decoder, check, explain
from workers.constraints.constraint_file import load_constraints
from workers.inference.registry import SOLVERS
from workers.models.loaders import load_model
from workers.models.model import Model
from workers.parquet import CorpusError
from workers.shard_io import Shard, read_batch

REGISTRY = "models:/"


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
    """`workers.auditing.check` on the first ``documents`` documents of a corpus.

    Without a model the labels are those of the corpus' gold. Raises `OptionError`, and what
    reading corpus, model and file raises.
    """
    decoder = _decoder(engine, options, seed)
    constraints = load_constraints(file)
    opened = None if model is None else _open_model(model, tracking)
    shards = plan(corpus)
    total = min(documents, sum(shard.rows for shard in shards))
    labels = opened.labels if opened is not None else _gold_labels(corpus, shards)
    with meter("checking", total) as bar:
        return check(
            _batches(shards, documents),
            constraints,
            labels,
            model=opened,
            decoder=None if engine == "viterbi" else decoder,
            conflict_documents=conflict_documents,
            progress=bar.advance,
        )


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
    """`workers.auditing.explain` on one document of a corpus.

    Raises `CorpusError` where the document is not there, `OptionError`, and what reading raises.
    """
    decoder = _decoder(engine, options, seed)
    opened = _open_model(model, tracking)
    constraints = load_constraints(file).bind(opened.labels)
    document = _find(corpus, doc_id)
    potentials = opened.potentials(Batch.of([document]))
    return explain(document, potentials, constraints, opened.labels, decoder=decoder)


def _decoder(engine: str, options: Sequence[str], seed: int) -> Decoder:
    if engine not in SOLVERS:
        raise OptionError(f"no engine is called {engine!r}; there are {', '.join(SOLVERS)}")
    return Decoder(engine, parse_options(options, SOLVERS[engine].settings, owner=f"engine {engine}"), seed)


def _open_model(reference: str, tracking: str | None) -> Model:
    if not reference.startswith(REGISTRY):
        return load_model(Path(reference).expanduser())
    # MLflow takes seconds to import: only a model of the registry needs it.
    from flows.sources import open_model
    from flows.tracking import Tracking

    return open_model(reference, Tracking(tracking)).model


def _batches(shards: Sequence[Shard], documents: int) -> Iterator[Batch]:
    """The corpus up to so many documents."""
    left = documents
    for shard in shards:
        batch, _ = read_batch(shard)
        yield batch if len(batch) <= left else Batch.of([batch.document(i) for i in range(left)])
        left -= len(batch)
        if left <= 0:
            return


def _gold_labels(corpus: str, shards: Sequence[Shard]) -> LabelSet:
    """The labels of the whole corpus: a rare one need not be among the first documents."""
    names: set[str] = set()
    for shard in shards:
        batch, _ = read_batch(shard)
        if batch.labels is not None:
            names.update(batch.labels.values[i] for i in np.unique(batch.labels.codes).tolist())
    if not names:
        raise CorpusError(f"{corpus}: has no gold labels to check constraints against; give a model")
    return LabelSet.infer(names)


def _find(corpus: str, doc_id: str) -> Document:
    ids: list[str] = []
    for shard in plan(corpus):
        batch, _ = read_batch(shard)
        if doc_id in batch.doc_ids:
            return batch.document(batch.doc_ids.index(doc_id))
        ids += batch.doc_ids[: 3 - len(ids)]
    raise CorpusError(f"{corpus}: no document {doc_id!r}; its first are {', '.join(ids) or 'none at all'}")
