"""Output tables of a run: predictions, certificates, and times, which are kept apart from predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from concord.schemas.columns import (
    CERTIFICATES_LAYOUT,
    DOC_ID,
    ENTITY,
    LABELS,
    MARGIN,
    MARGIN_STATUS,
    N_BEST,
    N_BEST_BOUND,
    PREDICTIONS_LAYOUT,
    PROBABILITY,
    RANKED,
    SENTENCE_STARTS,
    TIMES_LAYOUT,
    VIOLATION,
    nest,
    sentence_lists,
    stamp,
)
from concord.schemas.decoded import Confidence, Decoded, Ranking, Score
from concord.schemas.document import TOKENS, Batch, Column
from concord.schemas.labels import LabelSet


def predictions_table(
    batch: Batch,
    decoded: Sequence[Decoded],
    labels: LabelSet,
    *,
    engine: str,
    constraint_names: Sequence[str],
    model_digest: str,
    constraint_digest: str,
) -> pa.Table:
    """A stamped predictions table (D rows): ``decoded[i]`` belongs to document i of ``batch``.

    Scores in nats; entities as `LabelSet.spans` cuts them. No times: equal decodings give equal bytes.
    """
    chosen = np.concatenate([np.zeros(0, np.int32), *(d.labels for d in decoded)]).astype(np.int32)
    if len(decoded) != len(batch) or len(chosen) != batch.token_count:
        raise ValueError(f"{len(decoded)} decodings of {len(chosen)} tokens for {len(batch)} documents")
    data = {
        DOC_ID: pa.array(batch.doc_ids, pa.string()),
        TOKENS: nest(batch.columns[TOKENS], batch.doc_starts),
        SENTENCE_STARTS: sentence_lists(batch),
        LABELS: nest(Column(chosen, labels.names), batch.doc_starts),
        "entities": entities_column(batch, labels, chosen),
        "engine": pa.array([engine] * len(batch), pa.string()),
        "local": pa.array([d.local for d in decoded], pa.float64()),
        "penalty": pa.array([d.penalty for d in decoded], pa.float64()),
        "objective": pa.array([d.objective for d in decoded], pa.float64()),
        "bound": pa.array([d.bound for d in decoded], pa.float64()),
        "gap": pa.array([d.gap for d in decoded], pa.float64()),
        "status": pa.array([str(d.status) for d in decoded], pa.string()),
        "certified": pa.array([d.certified for d in decoded], pa.bool_()),
        "constraints": charges(VIOLATION, [d.score for d in decoded], constraint_names),
        "model_digest": pa.array([model_digest] * len(batch), pa.string()),
        "constraint_digest": pa.array([constraint_digest] * len(batch), pa.string()),
    }
    return stamp(pa.table(data, schema=PREDICTIONS_LAYOUT.required), PREDICTIONS_LAYOUT)


def confidence_columns(confidences: Sequence[Confidence]) -> dict[str, pa.Array]:
    """Prediction columns of confidence by name: probabilities of entities, and margins where there are any."""
    found = {PROBABILITY: _lists([c.probability for c in confidences], pa.float64())}
    if confidences and confidences[0].margin is not None:
        found[MARGIN] = _lists([c.margin for c in confidences], pa.float64())
        found[MARGIN_STATUS] = _lists([c.status for c in confidences], pa.string())
    return found


def ranking_columns(rankings: Sequence[Ranking], labels: LabelSet) -> dict[str, pa.Array]:
    """Prediction columns, by name, of the best labellings of each document."""
    chosen = np.concatenate([np.zeros(0, np.int32), *(r.labels.ravel() for r in rankings)]).astype(np.int32)
    lengths = [length for r in rankings for length in [r.labels.shape[1]] * len(r.score)]
    none = [np.zeros(0)]
    arrays = [
        pa.array(np.concatenate(none + [r.score for r in rankings])),
        pa.array(np.concatenate(none + [r.gap for r in rankings])),
        pa.array(np.concatenate([np.zeros(0, np.bool_), *(r.proven for r in rankings)])),
        nest(Column(chosen, labels.names), np.cumsum([0, *lengths])),
    ]
    starts = np.cumsum([0, *(len(r.score) for r in rankings)], dtype=np.int32)
    rows = pa.StructArray.from_arrays(arrays, fields=list(RANKED))
    return {
        N_BEST: pa.ListArray.from_arrays(pa.array(starts), rows),
        N_BEST_BOUND: pa.array([r.bound for r in rankings], pa.float64()),
    }


def _lists(rows: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """A list a row; NaN is null."""
    starts = np.cumsum([0, *map(len, rows)], dtype=np.int32)
    flat = pa.array([value for row in rows for value in row], kind, from_pandas=True)
    return pa.ListArray.from_arrays(pa.array(starts), flat)


def certificates_table(batch: Batch, proofs: Sequence[Sequence[int] | None]) -> pa.Table:
    """A stamped table of proofs, null for a document without one."""
    data = {DOC_ID: list(batch.doc_ids), "proof": list(proofs)}
    return stamp(pa.table(data, schema=CERTIFICATES_LAYOUT.required), CERTIFICATES_LAYOUT)


def times_table(batch: Batch, decoded: Sequence[Decoded], cpu_seconds: Sequence[float]) -> pa.Table:
    """A stamped table of seconds (by the clock, and of a processor) and work a document."""
    data = {
        DOC_ID: list(batch.doc_ids),
        "seconds": [d.seconds for d in decoded],
        "cpu_seconds": list(cpu_seconds),
        "work": [d.work for d in decoded],
    }
    return stamp(pa.table(data, schema=TIMES_LAYOUT.required), TIMES_LAYOUT)


def entities_column(batch: Batch, labels: LabelSet, chosen: NDArray[np.int32]) -> pa.Array:
    """(D,) lists of the spans of labels (N,), see `schemas.columns.ENTITY`."""
    spans = labels.spans(chosen, batch.sentence_starts)
    first = np.searchsorted(spans.start, batch.doc_starts)
    document = np.repeat(np.arange(len(batch)), np.diff(first))
    shift = batch.doc_starts[document]
    kinds = pa.DictionaryArray.from_arrays(spans.type, pa.array(labels.types, pa.string())).dictionary_decode()
    if batch.raw is not None:
        left, right = batch.raw.start[spans.start], batch.raw.end[spans.end - 1]
        cuts = zip(document.tolist(), left.tolist(), right.tolist(), strict=True)
        texts = [batch.raw.contents[d][a:b] for d, a, b in cuts]
        characters = [pa.array(left, pa.int32()), pa.array(right, pa.int32())]
    else:
        words = batch.columns[TOKENS]
        texts = [" ".join(words[a:b].strings()) for a, b in zip(spans.start.tolist(), spans.end.tolist(), strict=True)]
        characters = [pa.nulls(len(spans), pa.int32())] * 2
    tokens = [pa.array((p - shift).astype(np.int32)) for p in (spans.start, spans.end)]
    rows = pa.StructArray.from_arrays([kinds, *tokens, *characters, pa.array(texts, pa.string())], fields=list(ENTITY))
    return pa.ListArray.from_arrays(pa.array(first.astype(np.int32)), rows)


def charges(kind: pa.StructType, scores: Sequence[Score], names: Sequence[str], *more: pa.Array) -> pa.Array:
    """A list for each document of what the K constraints ``names`` charge it.

    - ``kind``: `VIOLATION`, or another structure that begins with its fields
    - ``more`` (D · K,): values of the other fields
    """
    none = [np.zeros(0)]
    arrays = [
        pa.array(list(names) * len(scores), pa.string()),
        pa.array(np.concatenate(none + [score.degree for score in scores])),
        pa.array(np.concatenate(none + [score.penalties for score in scores])),
        *more,
    ]
    starts = np.arange(len(scores) + 1, dtype=np.int32) * len(names)
    return pa.ListArray.from_arrays(pa.array(starts), pa.StructArray.from_arrays(arrays, fields=list(kind)))
