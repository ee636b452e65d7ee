"""Labelling of one shard: reads it, labels its batch, and writes the output. No Ray here."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from concord.schemas.columns import PREDICTIONS as PREDICTIONS_LAYOUT
from concord.schemas.columns import Reject, nest, stamp
from concord.schemas.document import Batch, Column
from concord.schemas.predictions import (
    certificates_table,
    confidence_columns,
    predictions_table,
    ranking_columns,
    times_table,
)
from concord.schemas.run import RunKey, RunSettings, Seconds, ShardMarker, ShardResult
from concord.workers.constraints.constraint_set import ConstraintSet
from concord.workers.corpus.shards import Shard, read_batch
from concord.workers.labelling.labelled import Labelled, label_batch
from concord.workers.labelling.output import (
    CERTIFICATES,
    PREDICTIONS,
    TIMES,
    shard_key,
    shard_name,
    without_place,
    write_marker,
    write_table,
)
from concord.workers.labelling.report import report_of
from concord.workers.models.model import Model, text_tokenizer

VITERBI_LABELS = "viterbi_labels"
"""Extra column of the predictions: the chain's own answer, so that every change can be explained."""
VITERBI_LOCAL, VITERBI_PENALTY = "viterbi_local", "viterbi_penalty"
"""Extra columns of the Viterbi labels: their local score, and their penalty under the constraints, in nats."""


def label_shard(shard: Shard, *, model: Model, constraints: ConstraintSet, key: RunKey, store: Path) -> ShardResult:
    """Reads a shard, labels it, and writes its predictions, times and, last, its marker with the rejects.

    Safe to run twice, even at the same time: the bytes are the same and every file is replaced as
    a whole. Raises what reading raises and `OutputError`; a document that cannot be read or labelled is a
    reject instead.
    """
    started = time.perf_counter()
    name = shard_name(shard, key)
    batch, rejects = read_batch(shard, text=key.settings.text, tokenizer=text_tokenizer(model))
    read = time.perf_counter() - started
    labelled = label_batch(batch, model=model, constraints=constraints, settings=key.settings)
    if labelled.refused:
        rejects = _with_refused(rejects, shard, batch, labelled.refused)
        batch = Batch.of([batch.document(i) for i in range(len(batch)) if i not in labelled.refused])
    report = report_of(batch, labelled, labels=model.labels, names=constraints.names, rejected=len(rejects))
    decided = time.perf_counter()
    write_table(times_table(batch, labelled.decoded, labelled.cpu_seconds), store, TIMES, name)
    table = answers_table(batch, labelled, model=model, constraints=constraints, settings=key.settings)
    files = [write_table(table, store, PREDICTIONS, name)]
    if key.settings.certificates:
        files.append(write_table(certificates_table(batch, labelled.proofs), store, CERTIFICATES, name))
    marker = ShardMarker(
        key=shard_key(shard, key), files=tuple(files), rejects=without_place(rejects, shard), report=report
    )
    write_marker(marker, store)
    seconds = Seconds(read, labelled.score_seconds, labelled.decode_seconds, time.perf_counter() - decided)
    return ShardResult(marker, seconds)


def _with_refused(unread: list[Reject], shard: Shard, batch: Batch, refused: Mapping[int, str]) -> list[Reject]:
    """All rejects of a shard by row: rows that could not be read, and documents that could not be labelled."""
    bad = {reject.row for reject in unread}
    rows = [row for row in range(shard.first_row, shard.first_row + shard.rows) if row not in bad]
    new = [Reject(shard.file.path, rows[i], batch.doc_ids[i], why) for i, why in refused.items()]
    return sorted(unread + new, key=lambda reject: reject.row or 0)


def answers_table(
    batch: Batch, labelled: Labelled, *, model: Model, constraints: ConstraintSet, settings: RunSettings
) -> pa.Table:
    """A stamped predictions table of a batch of which nothing was refused, with the Viterbi labels and their scores."""
    table = predictions_table(
        batch,
        labelled.decoded,
        model.labels,
        engine=settings.engine,
        constraint_names=constraints.names,
        model_digest=model.digest,
        constraint_digest=constraints.digest,
    )
    first = np.concatenate([np.zeros(0, np.int32), *labelled.first])
    column = nest(Column(first, model.labels.names), batch.doc_starts)
    columns = {
        VITERBI_LABELS: column,
        VITERBI_LOCAL: pa.array([score.local for score in labelled.before], pa.float64()),
        VITERBI_PENALTY: pa.array([score.penalty for score in labelled.before], pa.float64()),
    }
    if settings.confidence != "none":
        columns |= confidence_columns(labelled.confidence)
    if settings.n_best:
        columns |= ranking_columns(labelled.rankings, model.labels)
    for name, values in columns.items():
        table = table.append_column(name, values)
    return stamp(table, PREDICTIONS_LAYOUT)
