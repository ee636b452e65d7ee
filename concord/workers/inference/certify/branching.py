"""A tree search of our own: each node a chain with prices, so that a proof rests on no solver's word.

A node is the problem with some labels left out. Multipliers charge its rows to the chain (`relaxation.row_dual`),
prices its agreement (`relaxation.relaxation`), and the bound of both prunes it or rules it out. Otherwise it is split
at a token: in one branch the token has a label, in the other it has any but this. It is the token of which the prices
and multipliers take most: there sentences and groups, or rows, still disagree. Depth first, the branch of the
incumbent's label before the other, so that few nodes wait.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
from concord.schemas.decoded import Score
from concord.schemas.labels import Labels
from concord.workers.inference.chains.row_states import label_nodes, span_nodes
from concord.workers.inference.core.effort import Effort
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.numerics import NEGLIGIBLE_GAP
from concord.workers.inference.relaxation.relaxation import Relaxed, relax
from concord.workers.inference.relaxation.row_dual import (
    ROUND_STEPS,
    best_with_rows,
    charged,
    dual_bound,
)


class BranchProof(NamedTuple):
    """What a tree search proved: any labelling that is better than ``labels`` scores at most ``bound``.

    - ``bound``: nats.
    - ``labels`` (N,): the best labelling known.
    - ``score``: its score.
    """

    bound: float
    labels: Labels
    score: Score


def search_branches(
    problem: Prepared, core: Prepared, labels: Labels, score: Score, effort: Effort, *, nodes: int, states: int
) -> BranchProof:
    """Searches ``core``, the ``problem`` without labels that nothing better has, in at most ``nodes`` nodes.

    ``labels`` (N,) is the best labelling known, and ``score`` its score. Rows have at most ``states`` states a token.
    It ends early if the effort is spent. Each open node then counts with the bound of its parent.
    """
    waiting, proven = [(core, core.viterbi_score)], -np.inf
    while waiting:
        if nodes == 0 or effort.spent:
            proven = max([proven, *(bound for _, bound in waiting)])
            break
        node, above = waiting.pop()
        nodes -= 1
        relaxed, multipliers = relaxed_node(problem, node, labels, score, effort, states=states)
        bound = min(above, relaxed.bound)
        choice = _branch(relaxed, multipliers)
        if bound > relaxed.objective + NEGLIGIBLE_GAP and choice is None:
            relaxed, _ = relaxed_node(problem, relaxed.problem, relaxed.labels, relaxed.score, effort, states=states)
            bound = relaxed.bound
        labels, score = relaxed.labels, relaxed.score
        if bound <= relaxed.objective + NEGLIGIBLE_GAP or choice is None:
            proven = max(proven, bound)
            continue
        waiting += [(_restricted(relaxed.problem, *choice, has=has), bound) for has in (False, True)]
    return BranchProof(max(proven, score.objective), labels, score)


def relaxed_node(
    problem: Prepared, core: Prepared, labels: Labels, score: Score, effort: Effort, *, states: int
) -> tuple[Relaxed, Floats]:
    """The relaxation of rows and agreement of ``core``, and the multipliers (R,) of the rows in nats.

    The arguments are those of `search_branches`. If no choice is left, the bound is the score of what is left.
    """
    allowed, none = np.isfinite(core.potentials.unary), np.zeros(len(core.rows))
    if core.top == -np.inf:
        return Relaxed(core, -np.inf, labels, score), none
    if (allowed.sum(axis=1) == 1).all():
        answer = (core.viterbi, core.first) if core.first.objective > score.objective else (labels, score)
        return Relaxed(core, core.first.objective, *answer), none
    if not len(core.rows):
        return relax(core, labels, score, effort), none
    steps = max(1, effort.remaining(ROUND_STEPS * allowed.size) // allowed.size)
    dual = dual_bound(problem, allowed, labels, steps=steps, tolerance=NEGLIGIBLE_GAP)
    effort.work += dual.steps * allowed.size
    if not np.array_equal(dual.labels, labels):
        labels, score = dual.labels, problem.score(dual.labels)
    core = replace(core, potentials=core.potentials.restricted(dual.allowed))
    relaxed = Relaxed(core, min(dual.bound, core.viterbi_score), labels, score)
    if dual.bound <= score.objective + NEGLIGIBLE_GAP or core.top == -np.inf or effort.spent:
        return relaxed, dual.multipliers
    if core.agreements:
        relaxed = relax(core, labels, score, effort, rows=charged(core, dual.multipliers))
        relaxed = relaxed._replace(bound=min(relaxed.bound, max(dual.bound, relaxed.objective)))
    return _rows_exact(relaxed, dual.multipliers, effort, states), dual.multipliers


def _rows_exact(relaxed: Relaxed, multipliers: Floats, effort: Effort, states: int) -> Relaxed:
    """The relaxation with a bound for which rows count exactly, and agreement by its prices, if it has some."""
    if relaxed.bound <= relaxed.objective + NEGLIGIBLE_GAP or effort.spent:
        return relaxed
    core, priced = relaxed.problem, relaxed.priced
    nodes, gain = label_nodes(core.potentials.unary), 0.0
    if priced is not None:
        nodes, gain = span_nodes(core.potentials.unary, core.labels, *priced[:3]), priced.gain
    exact = best_with_rows(core, multipliers, nodes, target=relaxed.objective - gain, states=states, effort=effort)
    best = relaxed.labels, relaxed.score
    if exact.labels is not None:
        score = core.score(exact.labels)
        best = (exact.labels, score) if score.objective > relaxed.objective else best
    bound = min(relaxed.bound, max(exact.bound + gain, best[1].objective))
    return relaxed._replace(bound=bound, labels=best[0], score=best[1])


def _branch(relaxed: Relaxed, multipliers: Floats) -> tuple[int, int] | None:
    """A token and a label to branch on: the token that pays most, and its label in the best labelling if that is left.

    None if every token has one label left at most.
    """
    problem = relaxed.problem
    possible = np.isfinite(problem.potentials.unary)
    paid = np.zeros(len(problem))
    for prices in relaxed.rounds[-1:]:
        np.add.at(paid, prices.items[:, 0], prices.prices)
    rows = problem.rows
    np.add.at(paid, rows.position, multipliers[rows.row_of_entry] * np.abs(rows.coefficient))
    paid[np.count_nonzero(possible, axis=1) < 2] = -1.0
    token = int(paid.argmax())
    if paid[token] < 0:
        return None
    label = int(relaxed.labels[token])
    return token, label if possible[token, label] else int(problem.max_marginals[token].argmax())


def _restricted(problem: Prepared, token: int, label: int, *, has: bool) -> Prepared:
    """The labellings of ``problem`` in which the token has the label or, without ``has``, has it not."""
    allowed: NDArray[np.bool_] = np.ones(problem.potentials.unary.shape, np.bool_)
    allowed[token] = (np.arange(allowed.shape[1]) == label) == has
    return replace(problem, potentials=problem.potentials.restricted(allowed))
