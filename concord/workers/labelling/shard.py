"""Labelling of one shard: reads it, labels its batch, and writes the output. No Ray here."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from concord.schemas.columns import (
    CHARGE,
    DOCUMENT_DIGEST,
    PREDICTIONS_LAYOUT,
    SETTLED,
    VITERBI_CONSTRAINTS,
    VITERBI_LABELS,
    VITERBI_LOCAL,
    VITERBI_PENALTY,
    Reject,
    nest,
    stamp,
)
from concord.schemas.document import Batch, Column
from concord.schemas.predictions import (
    certificates_table,
    charges,
    confidence_columns,
    predictions_table,
    ranking_columns,
    times_table,
)
from concord.schemas.run import Reuse, RunKey, RunSettings, Seconds, ShardMarker, ShardResult
from concord.workers.constraints.constraint_set import ConstraintSet
from concord.workers.corpus.shards import Shard, ShardDocuments, read_documents
from concord.workers.labelling.kept import Reusable, as_it_was, standing
from concord.workers.labelling.labelled import Labelled, label_batch
from concord.workers.labelling.last_answers import LastAnswers
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
from concord.workers.storage.storage import Storage


def label_shard(
    shard: Shard,
    *,
    model: Model,
    constraints: ConstraintSet,
    key: RunKey,
    store: Storage,
    last: LastAnswers | None = None,
) -> ShardResult:
    """Reads a shard, labels it, and writes its predictions, times and, last, its marker with the rejects.

    What it can take of the ``last`` run it does not look for again. Safe to run twice, even at the same time: the bytes
    are the same and every file is replaced as a whole. Raises what reading raises and `OutputError`; a document that
    cannot be read or labelled is a reject instead.
    """
    started = time.perf_counter()
    name = shard_name(shard, key)
    there = read_documents(shard, text=key.settings.text, tokenizer=text_tokenizer(model))
    batch, rejects, digests, columns = there
    read = time.perf_counter() - started
    labelled = _labelled(shard, there, last or LastAnswers.none(), model, constraints, key.settings)
    if labelled.refused:
        rejects = _with_refused(rejects, shard, batch, labelled.refused)
        answered = [i for i in range(len(batch)) if i not in labelled.refused]
        batch, digests = Batch.of([batch.document(i) for i in answered]), [digests[i] for i in answered]
        columns = {name: column.take(pa.array(answered, pa.int64())) for name, column in columns.items()}
    report = report_of(batch, labelled, labels=model.labels, names=constraints.names, rejected=len(rejects))
    decided = time.perf_counter()
    write_table(times_table(batch, labelled.decoded, labelled.cpu_seconds), store, TIMES, name)
    table = answers_table(batch, labelled, model=model, constraints=constraints, settings=key.settings)
    table = table.append_column(DOCUMENT_DIGEST, pa.array(digests, pa.binary()))
    for column, values in columns.items():
        table = table.append_column(column, values)
    table = stamp(table, PREDICTIONS_LAYOUT)
    files = [write_table(table, store, PREDICTIONS, name)]
    if key.settings.certificates:
        files.append(write_table(certificates_table(batch, labelled.proofs), store, CERTIFICATES, name))
    marker = ShardMarker(
        key=shard_key(shard, key), files=tuple(files), rejects=without_place(rejects, shard), report=report
    )
    write_marker(marker, store)
    seconds = Seconds(read, labelled.score_seconds, labelled.decode_seconds, time.perf_counter() - decided)
    return ShardResult(marker, seconds, labelled.reuse)


def _labelled(
    shard: Shard,
    there: ShardDocuments,
    last: LastAnswers,
    model: Model,
    constraints: ConstraintSet,
    settings: RunSettings,
) -> Labelled:
    """The shard's documents, labelled or with the answers of the last run."""
    batch = there.batch
    before = last.find(shard.id, there.digests, model.labels)
    if last.known is Reusable.SAME:
        still = {place: as_it_was(answer, constraints.names) for place, answer in before.items()}
        reuse = Reuse(kept=len(still))
    else:
        answers = before if last.known is Reusable.RULES else {}
        still = standing(answers, batch, model.labels, constraints, last.cheaper)
        reuse = Reuse(stood=len(still))
    guesses = {place: answer.labels for place, answer in before.items() if place not in still}
    labelled = label_batch(batch, model=model, constraints=constraints, settings=settings, kept=still, guesses=guesses)
    labelled.reuse += reuse
    return labelled


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
    grounded = np.concatenate([np.zeros(0, np.bool_), *labelled.grounded])
    column = nest(Column(first, model.labels.names), batch.doc_starts)
    columns = {
        VITERBI_LABELS: column,
        VITERBI_LOCAL: pa.array([score.local for score in labelled.before], pa.float64()),
        VITERBI_PENALTY: pa.array([score.penalty for score in labelled.before], pa.float64()),
        VITERBI_CONSTRAINTS: charges(CHARGE, labelled.before, constraints.names, pa.array(grounded)),
    }
    if settings.settle:
        columns[SETTLED] = pa.array(labelled.settled, pa.bool_())
    if settings.confidence != "none":
        columns |= confidence_columns(labelled.confidence)
    if settings.n_best:
        columns |= ranking_columns(labelled.rankings, model.labels)
    for name, values in columns.items():
        table = table.append_column(name, values)
    return stamp(table, PREDICTIONS_LAYOUT)
