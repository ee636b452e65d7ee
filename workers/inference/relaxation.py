"""A bound on what agreement costs: sentences and groups of equal words solved apart, held together by prices.

What a document loses is what its sentences lose locally plus what each group of spans with the
same words pays for disagreeing. Each span that a sentence labels must be known to its groups; a
price θ ≥ 0 nats a membership replaces that demand (Lagrangian relaxation; Rush & Collins 2012):

    bound(θ) = Σ_sentences min_y [loss(y) + Σ θ of y's spans] + Σ_groups min_u [penalty(u) − Σ θ of u].

Sentences are exact, by dynamic programming over their candidate spans. A group's minimum is taken
over how many of its slots have each role (type of a span of these words, or of a longer span around
them): n and m of two roles cost n·m times the price of their pair. With all counts known but one the
slots are free of each other, so counts are enumerated as far as they can pay. Subgradient steps of
Polyak's length raise the bound. A span whose price-corrected loss exceeds the incumbent's is in no
better labelling.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.labels import Labels
from schemas.potentials import Floats, Potentials
from schemas.problem import Problem, Relation
from workers.inference.agreement import CONTAINED, EXACT, AgreementState, codec, empty_state
from workers.inference.chain import sentence_bounds, viterbi_score
from workers.inference.relaxation_kernels import (
    Chains,
    Groups,
    ascend,
    chain_losses,
    inner_scores,
    member_losses,
    memberships,
)
from workers.inference.spans import CandidateSpans, candidate_spans

Ints = NDArray[np.int64]
COVERED = (Relation.EXACT, Relation.CONTAINED)

STEPS = 60
FEW = 5
"""Subgradient steps between two prunings; few before the first, which the first prices are for."""
LIKELY = 6.0
"""The first prices are learned on spans that lose no more than this, in nats."""
MOST_WARMING = 4
WORTHWHILE = 0.95
"""Another round over these spans is worth its time where the last one cut D below this share."""
MOST_ROUNDS = 8
LEAST_PRUNED = 0.02
"""Share of the spans that a round has to remove for another round to be worth its time."""
HARD_WEIGHT = 1000.0
"""Nats that stand for an infinite cost here: less than it, so the bound holds."""
CLOSE = 1e-9


class Relaxed(NamedTuple):
    """What the prices prove: no labelling is better than ``labels`` (N,) and above ``bound`` (nats).

    ``problem`` is the document with the labels struck out that no better labelling has.
    """

    problem: Problem
    bound: float
    labels: Labels


def relax(problem: Problem, labels: Labels) -> Relaxed:
    """Bounds the objective of all labellings, and prunes by that bound.

    ``labels`` (N,) is the incumbent; a better one may be met on the way. Only agreement on equal
    and on contained words is looked at: other costs lower the objective more, so the bound holds.
    """
    best = viterbi_score(problem.potentials)
    if not any(a.relation in COVERED for a in problem.agreements):
        return Relaxed(problem, best, labels)
    upper = best - problem.score(labels).objective
    state = empty_state(problem, HARD_WEIGHT)
    limit = min(upper, LIKELY)
    warm, labels, upper = _warmed(problem, state, labels, best, upper, limit)
    spans = candidate_spans(problem, max(limit, upper) + CLOSE)
    members = memberships(state, spans.start, spans.end, spans.type)
    prices = np.zeros(len(members))
    prices[spans.loss[members[:, 0]] <= limit + CLOSE] = warm
    alive = spans.loss <= upper + CLOSE
    outside = np.isfinite(problem.potentials.unary)
    loss = 0.0
    for number in range(MOST_ROUNDS):
        at = np.flatnonzero(alive[members[:, 0]])
        kept, groups = _grouped(state, members[at])
        at = at[kept]
        chains = _chains(problem, spans, alive)
        groups = groups._replace(span=(np.cumsum(alive) - 1)[groups.span])
        steps = STEPS if number else FEW
        value, learned, chosen = ascend(chains, groups, prices[at], best, upper + CLOSE, steps)
        prices[:] = 0.0
        prices[at] = learned
        found = best - problem.score(chosen).objective
        if found < upper:
            labels, upper = chosen, found
        loss = max(loss, min(value, upper))
        if loss >= upper - CLOSE:
            break
        span_loss, outside_loss = _price_losses(chains, groups, learned, upper + CLOSE - value)
        before = int(alive.sum())
        alive[np.flatnonzero(alive)[value + span_loss > upper + CLOSE]] = False
        outside &= value + outside_loss <= upper + CLOSE
        if number and before - int(alive.sum()) < LEAST_PRUNED * before:
            break
    return Relaxed(_struck(problem, spans, alive, outside), best - loss, labels)


def _warmed(
    problem: Problem, state: AgreementState, labels: Labels, best: float, upper: float, limit: float
) -> tuple[Floats, Labels, float]:
    """Prices learned on the likeliest spans alone: they prove nothing yet, but soon prune most of the others."""
    spans = candidate_spans(problem, limit + CLOSE)
    members = memberships(state, spans.start, spans.end, spans.type)
    kept, groups = _grouped(state, members)
    chains = _chains(problem, spans, np.ones(len(spans), np.bool_))
    learned = np.zeros(len(kept))
    for number in range(MOST_WARMING):
        before = upper
        value, learned, chosen = ascend(chains, groups, learned, best, upper + CLOSE, STEPS)
        found = best - problem.score(chosen).objective
        if found < upper:
            labels, upper = chosen, found
        if value >= upper or (number and upper > WORTHWHILE * before):
            break
    prices = np.zeros(len(members))
    prices[kept] = learned
    return prices, labels, upper


def _struck(problem: Problem, spans: CandidateSpans, alive: NDArray[np.bool_], outside: NDArray[np.bool_]) -> Problem:
    """The problem with −inf where a label is neither outside and possible nor part of a span that is."""
    p = problem.potentials
    possible = outside & (problem.labels.type_of < 0)
    opening, inside = problem.labels.opening[spans.type[alive]], problem.labels.inside[spans.type[alive]]
    start, end = spans.start[alive], spans.end[alive]
    possible[start, opening] = True
    later = end - start - 1
    within = np.arange(later.sum()) - np.repeat(np.cumsum(later) - later, later)
    possible[np.repeat(start + 1, later) + within, np.repeat(inside, later)] = True
    unary = np.where(possible, p.unary, -np.inf)
    return replace(problem, potentials=Potentials(unary, p.transition, p.sentence_starts))


def _chains(problem: Problem, spans: CandidateSpans, alive: NDArray[np.bool_]) -> Chains:
    p = problem.potentials
    arrays = codec(problem)
    start, end, kind = (np.ascontiguousarray(x[alive]).astype(np.int64) for x in (spans.start, spans.end, spans.type))
    first = np.searchsorted(start, np.arange(len(problem) + 1)).astype(np.int64)
    inner, last = inner_scores(p.unary, p.transition, arrays, start, end, kind)
    return Chains(p.unary, p.transition, arrays, sentence_bounds(p), first, start, end, kind, inner, last)


def _grouped(state: AgreementState, members: Ints) -> tuple[Ints, Groups]:
    """The memberships that can cost something, ordered, and their groups."""
    types = state.cost.shape[1]
    order = np.lexsort((members[:, 3], members[:, 4], members[:, 1]))
    order = order[_in_several_slots(members[order])]
    ordered = members[order]
    names, first, number = np.unique(ordered[:, 1], return_index=True, return_inverse=True)
    held = np.zeros((len(names), 2 * types), np.bool_)
    held[number, ordered[:, 3]] = True
    price = _pair_prices(state, ordered[first, 2], ordered[first, 5])
    price *= held[:, :, None] & held[:, None, :]
    # A role that pays nothing to any other role present needs no place in the group.
    paying: NDArray[np.bool_] = np.any(price > 0, axis=2)
    useful: NDArray[np.bool_] = np.any(paying, axis=1)
    kept = paying[number, ordered[:, 3]]
    return order[kept], _laid_out(ordered[kept], price[useful], paying[useful])


def _in_several_slots(ordered: Ints) -> NDArray[np.bool_]:
    """(K,) does a membership's group, of memberships ordered by group and slot, have more than one slot?"""
    _, first, number = np.unique(ordered[:, 1], return_index=True, return_inverse=True)
    several = np.zeros(len(first), np.bool_)
    several[number[ordered[:, 4] != ordered[first, 4][number]]] = True
    return several[number]


def _laid_out(members: Ints, price: Floats, paying: NDArray[np.bool_]) -> Groups:
    """Flat arrays of memberships that are ordered by group, slot and role; ``price`` (Q, 2T, 2T) and ``paying``
    (Q, 2T) still have a place for every role."""
    place = np.cumsum(paying, axis=1) - 1
    _, first, number = np.unique(members[:, 1], return_index=True, return_inverse=True)
    roles = paying.sum(axis=1)
    pair = np.zeros((len(price), int(roles.max(initial=0)), int(roles.max(initial=0))))
    q, a, b = np.nonzero(price)
    pair[q, place[q, a], place[q, b]] = price[q, a, b]
    new = np.ones(len(members), np.bool_)
    new[1:] = (members[1:, 1] != members[:-1, 1]) | (members[1:, 4] != members[:-1, 4])
    slots = np.append(np.flatnonzero(new), len(members)).astype(np.int64)
    groups = np.append(np.searchsorted(slots, first), len(slots) - 1).astype(np.int64)
    return Groups(members[:, 0].copy(), place[number, members[:, 3]], slots, groups, roles, pair)


def _pair_prices(state: AgreementState, table: Ints, width: Ints) -> Floats:
    """(Q, 2T, 2T) nats of a pair of roles: types of spans of a group's words, then types of spans around them."""
    types = state.cost.shape[1]
    prices = np.zeros((len(table), 2 * types, 2 * types))
    for a in range(len(state.table)):
        times = (table == state.table[a]) * np.where(state.per_token[a], width, 1).astype(np.float64)
        if state.relation[a] == EXACT:
            upper = np.triu(state.cost[a], 1)
            prices[:, :types, :types] += times[:, None, None] * (upper + upper.T)
        elif state.relation[a] == CONTAINED:
            prices[:, types:, :types] += times[:, None, None] * state.cost[a]
            prices[:, :types, types:] += times[:, None, None] * state.cost[a].T
    return prices


def _price_losses(chains: Chains, groups: Groups, prices: Floats, limit: float) -> tuple[Floats, Floats]:
    """What having each span (M,), and each outside label at each token (N, L), adds to the bound at least, in nats."""
    charge = np.bincount(groups.span, prices, len(chains.start))
    span_loss, outside_loss = chain_losses(chains, charge)
    np.add.at(span_loss, groups.span, member_losses(groups, prices, limit))
    return span_loss, outside_loss
