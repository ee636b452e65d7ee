"""Incremental scoring of complete labellings: each is scored by its differences from the one before.

Activities of rows and counts of spans are updated only where the labels differ. So their time grows with the distance
from the last labelling; the local score and the sum over rows are computed anew. Soft penalties (nats) and degrees of
hard constraints are kept apart, for an engine that lets hard weights grow (Stokman 2011, eq. 67).

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
from concord.workers.inference.core.recursion import edge_place
from concord.workers.inference.core.rows import RowState, row_degree, row_state, set_label

SOFT, HARD = range(2)
"""Places in ``values``."""


class IncrementalScore(NamedTuple):
    """The labelling that was evaluated last, and the parts of its score.

    - ``unary`` (N, L), ``edge`` (E, L, L): the potentials, in nats.
    - ``labels`` (N,): the labelling.
    - ``rows``: the activities; only soft rows have a weight.
    - ``hard_rows`` (H,): the ids of the hard rows.
    - ``spans``, ``hard_spans``: two agreement states that share their counts. In the first forbidden pairs cost
      nothing; in the second each costs 1, and all others nothing.
    - ``values`` (2,): penalty of the labelled spans, in nats, and their hard degree.
    """

    unary: Floats
    edge: Floats
    labels: Labels
    codec: Codec
    rows: RowState
    hard_rows: NDArray[np.int64]
    spans: AgreementState
    hard_spans: AgreementState
    values: Floats


def incremental_score(problem: Prepared, labels: Labels) -> IncrementalScore:
    """The state after evaluating ``labels`` (N,), from which other labellings are evaluated."""
    spans = problem.empty_state(np.inf)
    forbidden = np.isinf(spans.cost)
    current = IncrementalScore(
        problem.potentials.unary,
        problem.potentials.edges,
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
    """The smallest part around the difference at t that no span crosses, in the labels before and after the change."""
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
    """Adds spans and outside labels of ``labels[first:last]`` to the counts (1) or takes them out (−1).

    Neither ``first`` nor ``last`` may be inside a span.
    """
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
            total += at.edge[edge_place(at.edge, t), labels[t - 1], labels[t]]
    return total
