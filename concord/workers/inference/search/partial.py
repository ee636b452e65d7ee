"""A partial labelling, decided from left to right, with the loss that no completion of it avoids.

It is the cursor of all tree searches here. For a prefix y_1 … y_t, with V the local optimum,

    f(y_1 … y_t) = V − max over completions of the local score              (max messages, exact)
                 + Σ_r ρ_r · max(0, least activity of row r − bound_r)       (`row_bound`)
                 + cost of the pairs of closed spans, and of outside labels with them.

Why f is a lower bound on the loss of every completion: no completion has a better local score than the first term says,
no completion brings a row below its least activity, and a pair of closed spans stays as it is; all other costs are ≥ 0.
At t = N all three are exact, so f is the labelling's loss.

`push` and `pop` update the local score, the row sums (Stokman 2011, eq. 60–63) and the cost of closed spans, and undo
each other exactly: `pop` restores saved values instead of subtracting. `expand` gives f for each next label. Hard
constraints are counted apart, so no large number stands for infinity.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
from concord.schemas.labels import Labels
from concord.schemas.problem import ANY
from concord.workers.compiling.kernel import inner_in_place, kernel_in_place
from concord.workers.inference.core.agreement import (
    AgreementState,
    Codec,
    add_outside,
    add_span,
    outside_cost,
    span_cost,
)
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.recursion import edge_place
from concord.workers.inference.core.row_bound import RowBounds, root_penalty, row_bounds
from concord.workers.inference.numerics import HARD_EXCESS, ROUNDING

NATS, BROKEN = range(2)
"""Places in ``root``."""


class Partial(NamedTuple):
    """The arrays of a partial labelling, which the kernels read and write; N tokens, L labels, R rows, E row events.

    - ``unary`` (N, L), ``edge`` (E, L, L): the potentials, in nats.
    - ``future`` (N, L): the best score of everything after t, given y_t, in nats.
    - ``alive`` (N, L): the labels that may be used.
    - ``activity`` (R,): the activity of each row under the labels so far.
    - ``cost`` (R,): nats that each row must cost; for a hard row, 1 if it cannot hold any more.
    - ``saved_activity``, ``saved_cost`` (E,): values of both from before each event, for `pop`.
    - ``labels`` (N,): the labels decided so far.
    - ``start`` (N,): the start of the span that each position is in.
    - ``local``, ``penalty``, ``broken`` (N,): local score and nats of rows and spans, and the number of broken hard
      constraints, each for all labels up to the position.
    - ``top`` (1,): the local optimum, in nats.
    - ``root`` (2,): nats and broken hard rows before anything is decided.
    - ``bounds``, ``spans``, ``hard_spans``: the events of rows; the counts of closed spans, with soft costs in nats and
      with 1 for each forbidden pair.
    """

    unary: Floats
    edge: Floats
    future: Floats
    alive: NDArray[np.bool_]
    codec: Codec
    bounds: RowBounds
    spans: AgreementState
    hard_spans: AgreementState
    activity: Floats
    cost: Floats
    saved_activity: Floats
    saved_cost: Floats
    labels: Labels
    start: NDArray[np.int64]
    local: Floats
    penalty: Floats
    broken: Floats
    top: Floats
    root: Floats


class ChainLoss(NamedTuple):
    """The local scores of the chain over the whole document, in nats.

    - ``loss`` (N, L): max-marginal loss, of the best labelling with y_t = l.
    - ``future`` (N, L): the best score of everything after t, given y_t = l.
    """

    loss: Floats
    future: Floats


def chain_loss(problem: Prepared) -> ChainLoss:
    """The max-marginal losses of a document, and the best scores of what follows each token."""
    best = problem.best_marginals
    starts = problem.potentials.sentence_starts
    rest = np.append(np.cumsum(best[starts][::-1])[::-1], 0.0)[1:]
    sentence = np.searchsorted(starts, np.arange(len(problem)), side="right") - 1
    return ChainLoss(best[:, None] - problem.max_marginals, problem.messages[1] + rest[sentence][:, None])


def start_partial(problem: Prepared, chain: ChainLoss, *, top: float, limit: float) -> Partial | None:
    """The empty labelling, restricted to labels whose loss is below ``limit`` (nats, or inf).

    None if some token has no label left, which proves that every labelling loses at least ``limit``.
    """
    alive = np.isfinite(chain.loss) & (chain.loss < limit - ROUNDING)
    if not alive.any(axis=1).all():
        return None
    bounds = row_bounds(problem, alive)
    least = root_penalty(bounds, problem.rows)
    if least > 0:
        alive &= chain.loss < limit - least - ROUNDING
        if least == np.inf or not alive.any(axis=1).all():
            return None
        bounds = row_bounds(problem, alive)
    return _partial(problem, chain, alive, bounds, top)


def _partial(problem: Prepared, chain: ChainLoss, alive: NDArray[np.bool_], bounds: RowBounds, top: float) -> Partial:
    p, count = problem.potentials, len(problem)
    spans = problem.empty_state(np.inf)
    forbidden = np.isinf(spans.cost)
    excess = np.where(problem.rows.weight > 0, bounds.root - bounds.bound, 0.0)
    soft = bounds.weight * np.where(excess > bounds.slack, excess, 0.0)
    cost = np.where(bounds.hard, excess > HARD_EXCESS * bounds.slack, soft)
    return Partial(
        p.unary,
        p.edges,
        chain.future,
        alive,
        problem.codec,
        bounds,
        spans._replace(cost=np.where(forbidden, 0.0, spans.cost)),
        spans._replace(cost=forbidden.astype(np.float64)),
        np.zeros(len(problem.rows)),
        cost.astype(np.float64),
        np.zeros(len(bounds.row)),
        np.zeros(len(bounds.row)),
        np.zeros(count, np.int32),
        np.zeros(count, np.int64),
        np.zeros(count),
        np.zeros(count),
        np.zeros(count),
        np.array([top]),
        np.array([cost[~bounds.hard].sum(), cost[bounds.hard].sum()], np.float64),
    )


def nodes_a_look(partial: Partial) -> int:
    """Number of nodes to expand between two looks at the clock: a few milliseconds' worth."""
    effort = 1 + len(partial.bounds.row) // len(partial.labels)
    return max(20, 40_000 // (20 + effort))


def root_loss(partial: Partial) -> float:
    """Nats that every labelling of the alive labels loses, at least; inf if none keeps the hard rows."""
    return np.inf if partial.root[BROKEN] > 0 else float(partial.root[NATS])


def complete_loss(partial: Partial) -> float:
    """The loss of the cursor's labelling in nats; the labelling must be complete."""
    return float(partial.top[0] - partial.local[-1] + partial.penalty[-1])


@kernel_in_place
def expand(p: Partial, t: int, losses: Floats) -> None:
    """Writes the least loss in nats with each label at t, given all before, to ``losses`` (L,); inf: impossible."""
    count, width = p.unary.shape
    if t == count - 1 and len(p.spans.table):
        _expand_last(p, t, losses)
        return
    penalty = p.root[NATS] if t == 0 else p.penalty[t - 1]
    broken = p.root[BROKEN] if t == 0 else p.broken[t - 1]
    closed, closed_broken = _closing_cost(p, t)
    left, left_broken = _leaving_cost(p, t)
    score = p.local[t - 1] if t > 0 else 0.0
    for b in range(width):
        losses[b] = np.inf
        if not p.alive[t, b]:
            continue
        step = p.unary[t, b] + p.future[t, b]
        if not p.codec.opens_sentence[t]:
            step += p.edge[edge_place(p.edge, t), p.labels[t - 1], b]
        ends = t > 0 and (p.codec.opens_sentence[t] or not p.codec.continues[p.labels[t - 1], b])
        outside = p.codec.type_of[b] < 0
        if broken + (closed_broken if ends else 0.0) + (left_broken if outside else 0.0) > 0.0:
            continue
        losses[b] = p.top[0] - (score + step) + penalty + (closed if ends else 0.0) + (left if outside else 0.0)
    for e in range(p.bounds.pointer[t], p.bounds.pointer[t + 1]):
        r = p.bounds.row[e]
        for b in range(width):
            if losses[b] == np.inf:
                continue
            now = _row_cost(p, r, p.activity[r] + _added(p, e, t, b) + p.bounds.least[e, b])
            if p.bounds.hard[r]:
                losses[b] = np.inf if now > 0.0 else losses[b]
            else:
                losses[b] += now - p.cost[r]


@inner_in_place
def _expand_last(p: Partial, t: int, losses: Floats) -> None:
    # The last label also closes the span it is in, so it is tried out.
    for b in range(len(losses)):
        losses[b] = np.inf
        follows = p.codec.opens_sentence[t] or p.edge[edge_place(p.edge, t), p.labels[t - 1], b] > -np.inf
        if not (p.alive[t, b] and follows):
            continue
        push(p, t, b)
        if p.broken[t] == 0.0:
            losses[b] = p.top[0] - p.local[t] + p.penalty[t]
        pop(p, t)


@kernel_in_place
def push(p: Partial, t: int, b: int) -> None:
    """Decides y_t = b; all tokens before t must be decided."""
    penalty = p.root[NATS] if t == 0 else p.penalty[t - 1]
    broken = p.root[BROKEN] if t == 0 else p.broken[t - 1]
    for e in range(p.bounds.pointer[t], p.bounds.pointer[t + 1]):
        r = p.bounds.row[e]
        p.saved_activity[e], p.saved_cost[e] = p.activity[r], p.cost[r]
        p.activity[r] += _added(p, e, t, b)
        p.cost[r] = _row_cost(p, r, p.activity[r] + p.bounds.least[e, b])
        if p.bounds.hard[r]:
            broken += p.cost[r] - p.saved_cost[e]
        else:
            penalty += p.cost[r] - p.saved_cost[e]
    p.labels[t] = b
    p.local[t] = p.unary[t, b]
    if t > 0:
        p.local[t] += p.local[t - 1]
    if not p.codec.opens_sentence[t]:
        p.local[t] += p.edge[edge_place(p.edge, t), p.labels[t - 1], b]
    joins = not p.codec.opens_sentence[t] and p.codec.continues[p.labels[t - 1], b]
    p.start[t] = p.start[t - 1] if joins else t
    if len(p.spans.table):
        for end in range(t + 1 if joins else t, _last_end(p, t)):
            closed, closed_broken = _closing_cost(p, end)
            penalty, broken = penalty + closed, broken + closed_broken
            _close(p, end, 1)
        if p.codec.type_of[b] < 0:
            left, left_broken = _leaving_cost(p, t)
            penalty, broken = penalty + left, broken + left_broken
            add_outside(p.spans, t, 1)
    p.penalty[t], p.broken[t] = penalty, broken


@kernel_in_place
def pop(p: Partial, t: int) -> None:
    """Undoes the last decision, which must be that at t."""
    for e in range(p.bounds.pointer[t], p.bounds.pointer[t + 1]):
        r = p.bounds.row[e]
        p.activity[r], p.cost[r] = p.saved_activity[e], p.saved_cost[e]
    if len(p.spans.table) == 0:
        return
    for end in range(t if p.start[t] == t else t + 1, _last_end(p, t)):
        _close(p, end, -1)
    if p.codec.type_of[p.labels[t]] < 0:
        add_outside(p.spans, t, -1)


@inner_in_place
def _last_end(p: Partial, t: int) -> int:
    # The span that the document's last token is in ends with it.
    return t + 2 if t + 1 == len(p.labels) else t + 1


@inner_in_place
def _closing_cost(p: Partial, end: int) -> tuple[float, float]:
    """Nats and broken hard constraints of the span that is open before ``end``, if it is closed there."""
    if end == 0 or len(p.spans.table) == 0:
        return 0.0, 0.0
    kind = p.codec.type_of[p.labels[end - 1]]
    if kind < 0:
        return 0.0, 0.0
    start = p.start[end - 1]
    return span_cost(p.spans, start, end, kind), span_cost(p.hard_spans, start, end, kind)


@inner_in_place
def _leaving_cost(p: Partial, t: int) -> tuple[float, float]:
    """Nats and broken hard constraints of an outside label at t, together with the closed spans."""
    if len(p.spans.watching) == 0:
        return 0.0, 0.0
    return outside_cost(p.spans, t), outside_cost(p.hard_spans, t)


@inner_in_place
def _close(p: Partial, end: int, change: int) -> None:
    if end == 0 or p.codec.type_of[p.labels[end - 1]] < 0:
        return
    # Both states share their counts.
    add_span(p.spans, p.start[end - 1], end, p.codec.type_of[p.labels[end - 1]], change)


@inner_in_place
def _added(p: Partial, e: int, t: int, b: int) -> float:
    """The activity that label b at t adds to the row of event e."""
    added = p.bounds.gain[e, b]
    for i in range(p.bounds.edge_first[e], p.bounds.edge_last[e]):
        if p.bounds.previous[i] != ANY and p.bounds.label[i] == b and p.bounds.previous[i] == p.labels[t - 1]:
            added += p.bounds.coefficient[i]
    return float(added)


@inner_in_place
def _row_cost(p: Partial, r: int, activity: float) -> float:
    excess = activity - p.bounds.bound[r]
    if p.bounds.hard[r]:
        return 1.0 if excess > HARD_EXCESS * p.bounds.slack[r] else 0.0
    return p.bounds.weight[r] * excess if excess > p.bounds.slack[r] else 0.0
