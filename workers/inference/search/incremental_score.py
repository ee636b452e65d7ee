"""Incremental evaluation of complete labellings: each is scored by its differences from the one before.

Row activities and counts of spans are updated where the labels differ, so an evaluation takes time in how far the
labelling is from the last one, but for the local score and the sum over rows. Soft penalties (nats) and degrees of hard
constraints are kept apart: an engine that lets hard weights grow (Stokman 2011, eq. 67) weighs the latter itself.

Invariant: after `evaluate` the activities, counts and ``values`` are those of ``labels``, up to rounding.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
from concord.schemas.labels import Labels
from concord.workers.compiling.kernel import inner, inner_in_place, kernel, kernel_in_place
from concord.workers.inference.core.agreement import (
    AgreementState,
    Codec,
    add_outside,
    add_span,
    item_end,
    outside_cost,
    span_cost,
)
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.rows import RowState, row_degree, row_state, set_label

SOFT, HARD = range(2)
"""Places in ``values``."""


class IncrementalScore(NamedTuple):
    """The labelling evaluated last, ``labels`` (N,), and its parts. ``values`` (2,): nats and hard degree of its spans.

    ``rows`` weighs soft rows alone; ``hard_rows`` (H,) are the ids of the others. The two span
    states share their counts; ``hard_spans`` costs 1 where the agreement forbids.
    """

    unary: Floats
    transition: Floats
    labels: Labels
    codec: Codec
    rows: RowState
    hard_rows: NDArray[np.int64]
    spans: AgreementState
    hard_spans: AgreementState
    values: Floats


def incremental_score(problem: Prepared, labels: Labels) -> IncrementalScore:
    """The evaluation of ``labels`` (N,), from which others follow."""
    spans = problem.empty_state(np.inf)
    forbidden = np.isinf(spans.cost)
    current = IncrementalScore(
        problem.potentials.unary,
        problem.potentials.transition,
        labels.copy(),
        problem.codec,
        row_state(problem, labels, 0.0),
        np.flatnonzero(np.isinf(problem.rows.weight)),
        spans._replace(cost=np.where(forbidden, 0.0, spans.cost)),
        spans._replace(cost=forbidden.astype(np.float64)),
        np.zeros(2),
    )
    count_spans(current, 0, len(problem), 1)
    return current


@kernel
def evaluate(at: IncrementalScore, target: Labels) -> tuple[float, float, float]:
    """Evaluates ``target`` (N,): its local score, soft penalty (both nats) and hard degree."""
    if len(at.spans.table):
        _move_spans(at, target)
    else:
        _set_labels(at, target)
    soft, hard = at.values[SOFT], at.values[HARD]
    for r in range(len(at.rows.bound)):
        soft += at.rows.weight[r] * row_degree(at.rows, r)
    for r in at.hard_rows:
        hard += row_degree(at.rows, r)
    return _local(at, target), soft, hard


@inner
def _move_spans(at: IncrementalScore, target: Labels) -> None:
    # All old spans leave before any label changes: labels changed in part may join spans that neither side has.
    parts = np.empty((len(target), 2), np.int64)
    found = 0
    t = 0
    while t < len(target):
        if at.labels[t] == target[t]:
            t += 1
            continue
        low, high = _crossed(at.codec, at.labels, target, t)
        count_spans(at, low, high, -1)
        parts[found, 0], parts[found, 1] = low, high
        found += 1
        t = high
    _set_labels(at, target)
    for i in range(found):
        count_spans(at, parts[i, 0], parts[i, 1], 1)


@inner_in_place
def _set_labels(at: IncrementalScore, target: Labels) -> None:
    for t in range(len(target)):
        set_label(at.rows, at.labels, t, target[t])


@inner_in_place
def _crossed(codec: Codec, now: Labels, target: Labels, t: int) -> tuple[int, int]:
    """The part around the difference at t that no span crosses, before or after the change."""
    low = t
    while not codec.opens_sentence[low] and (
        codec.continues[now[low - 1], now[low]] or codec.continues[target[low - 1], target[low]]
    ):
        low -= 1
    high = t + 1
    while not codec.opens_sentence[high] and (
        codec.continues[now[high - 1], now[high]] or codec.continues[target[high - 1], target[high]]
    ):
        high += 1
    return low, high


@kernel_in_place
def count_spans(at: IncrementalScore, first: int, last: int, change: int) -> None:
    """Counts spans and outside labels of ``labels[first:last]`` in (1) or out (−1); both ends are span borders."""
    t = first
    while t < last:
        kind = at.codec.type_of[at.labels[t]]
        end = item_end(at.codec.continues, at.codec.opens_sentence, at.labels, t, last)
        if kind >= 0:
            if change < 0:
                add_span(at.spans, t, end, kind, change)
            at.values[SOFT] += change * span_cost(at.spans, t, end, kind)
            at.values[HARD] += change * span_cost(at.hard_spans, t, end, kind)
            if change > 0:
                add_span(at.spans, t, end, kind, change)
        elif len(at.spans.watching):
            at.values[SOFT] += change * outside_cost(at.spans, t)
            at.values[HARD] += change * outside_cost(at.hard_spans, t)
            add_outside(at.spans, t, change)
        t = end


@inner_in_place
def _local(at: IncrementalScore, labels: Labels) -> float:
    total = 0.0
    for t in range(len(labels)):
        total += at.unary[t, labels[t]]
        if not at.codec.opens_sentence[t]:
            total += at.transition[labels[t - 1], labels[t]]
    return total
