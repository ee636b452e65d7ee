"""Proofs for problems with rows: a Lagrangian bound over linear rows, and a search over the labels that it leaves.

Let g_r(y) = Σ coefficient − bound be the excess of row r, and ρ_r its weight. For multipliers 0 ≤ λ_r ≤ ρ_r

    B(λ) = max_y [local(y) − Σ_r λ_r · g_r(y)]

is one Viterbi pass: the rows' entries are added to the scores of labels and edges. Why B(λ) is an upper bound of every
labelling: λ_r · g_r(y) ≤ ρ_r · max(0, g_r(y)), so local(y) − penalty(y) ≤ local(y) − Σ_r λ_r · g_r(y) ≤ B(λ). Span
agreement only adds costs, so the bound holds without it. The same is true with y_t = l forced: a label whose
max-marginal under λ is below the incumbent's objective is in no better labelling (reduced-cost fixing).

B is convex with subgradient −g(y*) at the maximiser y*. Steps λ ← clip(λ + α · g(y*), 0, ρ) of Polyak's length α = s ·
(B − target) / ‖g‖² (Held, Wolfe & Crowder 1974) bring it down to the optimum of the linear relaxation. The labellings
y* met on the way are candidates. If a gap is left, dynamic programming over the states of the rows mostly closes it
(`workers.inference.chains.row_states`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Records, record_type
from concord.schemas.labels import Labels
from concord.schemas.potentials import Potentials
from concord.schemas.problem import ANY, LinearRows, Problem
from concord.workers.compiling.kernel import inner_in_place, kernel, kernel_in_place
from concord.workers.inference.chains.row_states import Nodes, RowsOnChain, RowStates, best_over_states, label_nodes
from concord.workers.inference.core.effort import Effort
from concord.workers.inference.core.folding import MOST_CELLS
from concord.workers.inference.core.incumbent import Search
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.recursion import (
    BEST,
    ScoredChain,
    best_path,
    messages_after,
    messages_before,
    sentence_bounds,
)
from concord.workers.inference.core.row_reach import RowColumns, largest_activity, row_columns
from concord.workers.inference.numerics import MULTIPLIER_ROUNDING, ROUNDING

ROUND = 50
"""Steps after which the best labelling met is scored."""

DUAL_PATIENCE = 8
"""Steps without a better bound after which the step length is halved."""

MOST_STEPS = 5_000_000
"""Steps of one dynamic programme over states: a second, as it does not look at the clock."""

GUESS = 10.0
"""Gap between bound and target that step lengths assume while no labelling keeps the hard rows, in nats."""

FEW_STEPS, ROUND_STEPS = 50, 200
"""Subgradient steps of a short and a long round; each aims at the best labelling that the round before found."""

LEAST_STEP = 1e-4
"""Smallest fraction s of Polyak's length that is worth a step."""


def prove_rows(search: Search, *, states: int, tolerance: float) -> float:
    """Improves the search's incumbent; returns an upper bound of all labellings in nats, −inf if there is none.

    It makes two rounds, a short and a long one, each of a bound and of dynamic programming over at most ``states``
    states a token. It ends when bound and incumbent are within ``tolerance`` nats, or when the budget is spent. Work:
    a unit for each subgradient step, and for each step from a state to a node.
    """
    problem = search.problem
    allowed, bound = np.isfinite(problem.potentials.unary), search.top
    for steps in (FEW_STEPS, ROUND_STEPS):
        dual = dual_bound(problem, allowed, search.labels, steps=steps, tolerance=tolerance)
        search.work += dual.steps
        search.offer(dual.labels)
        # Labellings that are not allowed any more score at most as much as the labelling that ruled them out.
        bound, allowed = min(bound, max(dual.bound, search.objective)), dual.allowed
        if bound - search.objective <= tolerance or search.spent:
            break
        core = replace(problem, potentials=problem.potentials.restricted(allowed))
        nodes = label_nodes(core.potentials.unary)
        exact = best_with_rows(core, dual.multipliers, nodes, target=search.objective, states=states, effort=search)
        if exact.labels is not None:
            search.offer(exact.labels)
        bound = min(bound, max(exact.bound, search.objective))
        if bound == -np.inf or bound - search.objective <= tolerance or search.spent:
            break
    return bound


def best_with_rows(
    core: Prepared, multipliers: Floats, nodes: Nodes, *, target: float, states: int, effort: Effort
) -> RowStates:
    """The best labelling of ``core`` made of ``nodes``, by score and rows, if it scores more than ``target`` nats.

    See `best_over_states`; bounds are by ``multipliers`` (R,). Agreement is left out. At most ``states`` states stay at
    a token, fewer in long texts and where the effort leaves less.
    """
    rows = core.rows
    binding = np.flatnonzero(largest_activity(rows, np.isfinite(core.potentials.unary)) > rows.bound)
    own = replace(core, rows=rows.part(binding))
    chain, count = charged(own, multipliers[binding]), max(1, len(nodes.label))
    exact = best_over_states(
        RowsOnChain(core.potentials, chain.problem.potentials, own.rows, multipliers[binding], nodes),
        target=target,
        states=max(1, effort.remaining(min(MOST_STEPS, states * count)) // count),
    )
    effort.work += exact.work
    return exact


class DualBound(NamedTuple):
    """An upper bound of labellings, and the labels that it leaves.

    - ``bound``: nats; no allowed labelling scores more.
    - ``allowed`` (N, L): mask of the labels that a better labelling may have.
    - ``labels`` (N,): the best labelling known, by `Problem.score`.
    - ``steps``: number of steps taken.
    - ``multipliers`` (R,): the multipliers of the bound.
    """

    bound: float
    allowed: NDArray[np.bool_]
    labels: Labels
    steps: int
    multipliers: Floats


class ChargedRows(NamedTuple):
    """A problem whose rows are charged to its chain: B(λ) of the module's text, before agreement is taken off.

    - ``problem``: without rows; λ_r · coefficient is taken off the score of each entry's label or edge.
    - ``constant``: nats; no labelling scores more than its score in ``problem`` and this.
    """

    problem: Prepared
    constant: float


def charged(problem: Prepared, multipliers: Floats) -> ChargedRows:
    """The problem with its rows charged by ``multipliers`` (R,), each from 0 to the row's weight, in nats."""
    rows, p = problem.rows, problem.potentials
    amount = rows.coefficient * multipliers[rows.row_of_entry]
    of_label, of_edge = np.flatnonzero(rows.previous == ANY), np.flatnonzero((rows.previous != ANY) & (amount != 0.0))
    unary, transition = p.unary.copy(), p.transition
    np.subtract.at(unary, (rows.position[of_label], rows.label[of_label]), amount[of_label])
    if len(of_edge):
        transition = p.edges_by_token.copy()
        place = rows.position[of_edge], rows.previous[of_edge], rows.label[of_edge]
        np.subtract.at(transition, place, amount[of_edge])
    chain = replace(problem, potentials=Potentials(unary, transition, p.sentence_starts), rows=LinearRows.none())
    # A multiplier must not charge for an excess within the tolerance.
    constant = float(multipliers @ (rows.bound + rows.slack))
    return ChargedRows(chain, constant + (MULTIPLIER_ROUNDING if multipliers.any() else 0.0))


DUAL_NOW = record_type(("least", "f8"), ("length", "f8"), ("idle", "i8"))
"""Fields of ``now`` of a `_Dual`."""


class _Dual(NamedTuple):
    """State of the bound of R rows.

    - ``chain``: the document's, with a matrix for each token; it carries ``multipliers``.
    - ``rows``: the rows.
    - ``limit`` (R,): bound of a row with its slack.
    - ``multipliers`` (R,): those of the present step, in nats.
    - ``best`` (R,): multipliers of the least bound.
    - ``now`` (1,): ``least``, that bound in nats; ``length`` of a step; ``idle``, steps since the bound fell.
    """

    chain: ScoredChain
    rows: RowColumns
    limit: Floats
    multipliers: Floats
    best: Floats
    now: Records


def dual_bound(
    problem: Problem, allowed: NDArray[np.bool_], labels: Labels, *, steps: int, tolerance: float, least: float = np.inf
) -> DualBound:
    """An upper bound of labellings with ``allowed`` (N, L) labels, lowered by at most ``steps`` steps.

    ``labels`` (N,) is the incumbent. Labels of labellings that score at least ``least`` nats stay allowed, even if the
    incumbent is better. It ends early if bound and incumbent meet within ``tolerance`` nats. If there are no rows or no
    tokens, or the chain is too large, nothing is done and the bound is inf.
    """
    count, width = allowed.shape
    if not len(problem.rows) or not count or count * width * width > MOST_CELLS:
        return DualBound(np.inf, allowed, labels, 0, np.zeros(len(problem.rows)))
    dual = _new_dual(problem, allowed)
    best, objective = labels, problem.score(labels).objective
    labels_tried = np.zeros(count, np.int32)
    begun = taken = 0
    while begun < steps and dual.now["least"][0] - objective > tolerance and dual.now["length"][0] > LEAST_STEP:
        taken += _subgradient_steps(dual, min(ROUND, steps - begun), objective, labels_tried)
        begun += ROUND
        value = problem.score(labels_tried).objective
        if value > objective:
            best, objective = labels_tried.copy(), value
    alive = allowed & (_best_with(dual) >= min(objective, least) - MULTIPLIER_ROUNDING)
    return DualBound(float(dual.now["least"][0]) + MULTIPLIER_ROUNDING, alive, best, taken, dual.best)


def _new_dual(problem: Problem, allowed: NDArray[np.bool_]) -> _Dual:
    p, rows = problem.potentials, problem.rows
    edge = p.edges_by_token.copy()
    zeros = np.zeros(len(rows))
    return _Dual(
        ScoredChain(np.where(allowed, p.unary, -np.inf), edge, sentence_bounds(p)),
        row_columns(rows),
        # A multiplier must not charge for an excess within the tolerance.
        rows.bound + rows.slack,
        zeros,
        zeros.copy(),
        np.array([(np.inf, 1.0, 0)], DUAL_NOW),
    )


def _best_with(dual: _Dual) -> Floats:
    """(N, L) B(λ) of labellings with y_t = l in nats, for the best λ."""
    _move(dual, dual.best)
    through: Floats = dual.chain.unary + messages_before(dual.chain, BEST) + messages_after(dual.chain, BEST)
    top = through.max(axis=1, keepdims=True)
    bound: Floats = dual.now["least"][0] - (top - through)
    return bound


@kernel
def _subgradient_steps(dual: _Dual, steps: int, target: float, found: Labels) -> int:
    """Takes at most ``steps`` subgradient steps in place and returns their number: fewer if no multiplier can move.

    ``found`` (N,) gets the best labelling met by local score and rows alone.
    """
    excess = np.empty(len(dual.limit))
    wanted = np.empty(len(dual.limit))
    best_value = -np.inf
    for step in range(steps):
        labels, scores = best_path(dual.chain)
        value = scores.sum()
        penalty, relaxed = 0.0, 0.0
        length = 0.0
        for r in range(len(excess)):
            excess[r] = _excess(dual, labels, r)
            relaxed += dual.multipliers[r] * excess[r]
            if excess[r] > 0.0:
                penalty += dual.rows.weight[r] * (excess[r] + dual.rows.slack[r])
            value += dual.multipliers[r] * dual.limit[r]
        local = value + relaxed
        if step == 0 or local - penalty > best_value:
            best_value = local - penalty
            found[:] = labels
        if value < dual.now[0].least - ROUNDING:
            dual.now[0].least = value
            dual.best[:] = dual.multipliers
            dual.now[0].idle = 0
        else:
            dual.now[0].idle += 1
            if dual.now[0].idle >= DUAL_PATIENCE:
                dual.now[0].idle = 0
                dual.now[0].length *= 0.5
        goal = max(target, best_value)
        for r in range(len(excess)):
            # A multiplier at the edge of its range does not move if it would leave it.
            held = (excess[r] < 0.0 and dual.multipliers[r] <= 0.0) or (
                excess[r] > 0.0 and dual.multipliers[r] >= dual.rows.weight[r]
            )
            if not held:
                length += excess[r] * excess[r]
        if length == 0.0:
            return step + 1
        missing = value - goal if goal > -np.inf else GUESS
        size = dual.now[0].length * max(missing, 0.0) / length
        for r in range(len(excess)):
            wanted[r] = min(max(dual.multipliers[r] + size * excess[r], 0.0), dual.rows.weight[r])
        _move(dual, wanted)
    return steps


@kernel_in_place
def _move(dual: _Dual, wanted: Floats) -> None:
    """Changes the multipliers to ``wanted`` (R,), and the scores with them."""
    for r in range(len(wanted)):
        change = wanted[r] - dual.multipliers[r]
        if change == 0.0:
            continue
        dual.multipliers[r] = wanted[r]
        for e in range(dual.rows.pointer[r], dual.rows.pointer[r + 1]):
            t, label = dual.rows.position[e], dual.rows.label[e]
            if dual.rows.previous[e] == ANY:
                dual.chain.unary[t, label] -= change * dual.rows.coefficient[e]
            else:
                dual.chain.edge[t, dual.rows.previous[e], label] -= change * dual.rows.coefficient[e]


@inner_in_place
def _excess(dual: _Dual, labels: Labels, r: int) -> float:
    activity = 0.0
    for e in range(dual.rows.pointer[r], dual.rows.pointer[r + 1]):
        t = dual.rows.position[e]
        if labels[t] == dual.rows.label[e] and (dual.rows.previous[e] == ANY or labels[t - 1] == dual.rows.previous[e]):
            activity += dual.rows.coefficient[e]
    return float(activity - dual.limit[r])
