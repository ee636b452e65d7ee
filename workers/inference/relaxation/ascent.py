"""Kernels of the relaxation of agreement: what belongs to which group, and the ascent of its prices."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.labels import Labels
from schemas.potentials import Floats, Ints
from schemas.problem import NO_KEY
from workers.compiling.kernel import copy_to, inner, inner_in_place, kernel, kernel_in_place
from workers.inference.core.agreement import CONTAINED
from workers.inference.numerics import TOLERANCE
from workers.inference.relaxation.groups import PricedGroups, Workspace, group_cost, workspace_for
from workers.inference.relaxation.sentences import Chains, Lattice, lattice_for, solve_sentence, trace_sentence

MOMENTUM = 0.9
PATIENCE = 4
SHORTER = 0.5
"""Steps without a better bound before they are made shorter, and by which factor."""

BEST, LENGTH = 0, 1
TAKEN, IDLE, LOOKED, ENDED = range(4)
"""Places in ``numbers`` and ``counters`` of an `Ascent`."""


@kernel
def memberships(state: Any, start: Any, end: Any, kind: Any) -> Any:
    """(K, 6) span, group, table, role, slot, width: what each span's words and their parts belong to."""
    types = state.cost.shape[1]
    size = state.counts.shape[1]
    around = (state.relation == CONTAINED).any()
    rows = np.empty((max(16, 4 * len(start)), 6), np.int64)
    count = 0
    for i in range(len(start)):
        length = end[i] - start[i]
        for g in range(len(state.keys)):
            if length > state.width[g]:
                continue
            for width in range(1 if around else length, length + 1):
                for at in range(start[i], end[i] - width + 1):
                    key = state.keys[g, at, width - 1]
                    if key == NO_KEY:
                        continue
                    seen = False
                    for earlier in range(start[i], at):
                        seen |= state.keys[g, earlier, width - 1] == key
                    if seen:
                        continue
                    if count == len(rows):
                        rows = np.concatenate((rows, np.empty_like(rows)))
                    rows[count, 0] = i
                    rows[count, 1] = g * size + key
                    rows[count, 2] = g
                    rows[count, 3] = kind[i] if width == length else types + kind[i]
                    rows[count, 4] = at
                    rows[count, 5] = width
                    count += 1
    return rows[:count]


@kernel
def outside_memberships(state: Any, members: Any, undecided: Any, first: int) -> Any:
    """(K, 6) rows like those of `memberships` for outside labels at the tokens ``undecided`` (N,), whose number is
    ``first`` + t: what they leave out of what spans there may be, by ``members``, and would pay for it."""
    types, size = state.cost.shape[1], state.counts.shape[1]
    asked = np.zeros((len(state.keys), size), np.bool_)
    for row in members:
        for a in state.watching:
            if row[3] < types and state.table[a] == row[2] and state.cost[a, row[3], 0] > 0.0:
                asked[row[2], row[1] - row[2] * size] = True
    rows = np.empty((max(16, len(undecided)), 6), np.int64)
    count = 0
    for t in np.flatnonzero(undecided):
        for g in state.watched:
            for width in range(1, state.reach[g, t] + 1):
                key = state.keys[g, t, width - 1]
                if key == NO_KEY or not asked[g, key]:
                    continue
                if count == len(rows):
                    rows = np.concatenate((rows, np.empty_like(rows)))
                rows[count] = first + t, g * size + key, g, 2 * types, t, width
                count += 1
    return rows[:count]


@kernel
def left_out_costs(state: Any, left_out: Any, start: Any, end: Any, kind: Any) -> Any:
    """(M,) nats of each span against the places of its words at tokens ``left_out`` (N,), which are outside."""
    costs = np.zeros(len(start))
    for a in state.watching:
        g = state.table[a]
        places = np.zeros(state.counts.shape[1])
        for t in np.flatnonzero(left_out):
            for width in range(state.reach[g, t]):
                if state.keys[g, t, width] != NO_KEY:
                    places[state.keys[g, t, width]] += 1.0
        for i in range(len(start)):
            width = end[i] - start[i]
            if width <= state.width[g] and state.keys[g, start[i], width - 1] != NO_KEY:
                times = float(width) if state.per_token[a] else 1.0
                costs[i] += times * places[state.keys[g, start[i], width - 1]] * state.cost[a, kind[i], 0]
    return costs


class Ascent(NamedTuple):
    """An ascent of the prices of ``chains`` and ``groups`` (K memberships), so far.

    ``now`` (K,) are the prices in nats, ``direction`` (K,) where they go, ``charge`` (M + N,) what they sum to.
    ``taken`` (M + N,) and ``labels`` (N,) are what the sentences choose, ``known`` (K,) what the groups do; ``scores``
    (S,) and ``costs`` (Q,) in nats are right but for what is marked in ``moved`` (S,) and ``moved_groups`` (Q,).
    ``best_prices`` and ``best_labels`` are those of the best bound. ``sentence`` (K,) is each membership's.
    ``numbers`` (2,): the best bound in nats of loss, and the length of steps. ``counters`` (4,): steps taken, those
    since the bound rose, labels, spans, memberships and slots of boxes looked at, and whether more steps lead nowhere.
    """

    chains: Chains
    groups: PricedGroups
    lattice: Lattice
    workspace: Workspace
    sentence: Ints
    now: Floats
    direction: Floats
    charge: Floats
    taken: NDArray[np.bool_]
    known: NDArray[np.bool_]
    labels: Labels
    scores: Floats
    costs: Floats
    moved: NDArray[np.bool_]
    moved_groups: NDArray[np.bool_]
    best_prices: Floats
    best_labels: Labels
    numbers: Floats
    counters: Ints


@kernel
def ascent_from(chains: Any, groups: Any, prices: Any) -> Any:
    """An ascent from ``prices`` (K,) that has not begun."""
    count, sentences, members = len(chains.unary), len(chains.bounds) - 1, len(prices)
    items = len(chains.start) + count
    labels, scores = np.zeros(count, np.int32), np.zeros(sentences)
    ascent = Ascent(
        chains,
        groups,
        lattice_for(chains),
        workspace_for(groups),
        _sentences(chains, groups),
        prices.copy(),
        np.zeros(members),
        np.zeros(items),
        np.zeros(items, np.bool_),
        np.zeros(members, np.bool_),
        labels,
        scores,
        np.zeros(len(groups.roles)),
        np.ones(sentences, np.bool_),
        np.ones(len(groups.roles), np.bool_),
        prices.copy(),
        labels.copy(),
        np.array([-np.inf, 1.0]),
        np.zeros(4, np.int64),
    )
    # What has no price is never solved differently, and the rest only where a price moved.
    ascent.moved[ascent.sentence] = False
    _solve_sentences(ascent)
    ascent.moved[:] = False
    ascent.moved[ascent.sentence] = True
    return ascent


@kernel_in_place
def ascend(ascent: Any, optimum: float, upper: float, steps: int, most: int) -> Any:
    """Subgradient ascent to ``steps`` steps in all, or ``most`` more things looked at; is more of it of use?

    There is always one step. The best bound is inf, and the labels mean nothing, where some sentence cannot be
    made of the spans and outside labels. Steps go along subgradients with momentum (deflected as in Camerini,
    Fratta & Maffioli 1975), else they zigzag between the ways in which a group can agree.
    """
    most += ascent.counters[LOOKED]
    while ascent.counters[TAKEN] < steps and not ascent.counters[ENDED]:
        ascent.counters[TAKEN] += 1
        if not _ascent_step(ascent, optimum, upper):
            ascent.counters[ENDED] = 1
        if ascent.counters[LOOKED] >= most:
            break
    return ascent.counters[TAKEN] < steps and not ascent.counters[ENDED]


@inner_in_place
def _ascent_step(ascent: Any, optimum: float, upper: float) -> Any:
    """Works out the bound and moves the prices; False where that leads nowhere."""
    groups, now, direction, scores, costs = ascent.groups, ascent.now, ascent.direction, ascent.scores, ascent.costs
    ascent.charge[:] = 0.0
    for m in range(len(now)):
        ascent.charge[groups.span[m]] += now[m]
    _solve_sentences(ascent)
    before = ascent.workspace.looked[0]
    for q in range(len(costs)):
        if ascent.moved_groups[q]:
            costs[q] = group_cost(groups, q, now, ascent.workspace, ascent.known)
    ascent.counters[LOOKED] += len(now) + ascent.workspace.looked[0] - before
    value = optimum - scores.sum() + costs.sum()
    ascent.counters[IDLE] = 0 if value > ascent.numbers[BEST] + TOLERANCE else ascent.counters[IDLE] + 1
    if value > ascent.numbers[BEST]:
        ascent.numbers[BEST] = value
        copy_to(ascent.best_prices, now)
        copy_to(ascent.best_labels, ascent.labels)
    if ascent.numbers[BEST] >= upper:
        return False
    norm = 0.0
    for m in range(len(now)):
        direction[m] = MOMENTUM * direction[m] + int(ascent.taken[groups.span[m]]) - int(ascent.known[m])
        if direction[m] < 0.0 and now[m] == 0.0:
            direction[m] = 0.0
        norm += direction[m] ** 2
    if norm == 0.0:
        return False
    if ascent.counters[IDLE] >= PATIENCE:
        ascent.numbers[LENGTH] *= SHORTER
        ascent.counters[IDLE] = 0
    _step(ascent, ascent.numbers[LENGTH] * (upper - value) / norm)
    return True


@inner_in_place
def _step(ascent: Any, size: float) -> None:
    """Moves prices, none below 0, and marks the sentences and groups in which any did."""
    groups, prices = ascent.groups, ascent.now
    ascent.moved[:], ascent.moved_groups[:] = False, False
    for q in range(len(groups.roles)):
        for m in range(groups.slots[groups.groups[q]], groups.slots[groups.groups[q + 1]]):
            change = size * ascent.direction[m]
            if change != 0.0:
                prices[m] = max(0.0, prices[m] + change)
                ascent.moved[ascent.sentence[m]], ascent.moved_groups[q] = True, True


@inner_in_place
def _solve_sentences(ascent: Any) -> None:
    """Solves the sentences that ``moved``; their scores in nats are −inf where no spans make one."""
    chains, taken = ascent.chains, ascent.taken
    for s in range(len(ascent.moved)):
        if ascent.moved[s]:
            first, last = chains.bounds[s], chains.bounds[s + 1]
            taken[chains.first[first] : chains.first[last]] = False
            taken[len(chains.start) + first : len(chains.start) + last] = False
            ascent.scores[s] = solve_sentence(chains, s, ascent.charge, ascent.lattice)
            ascent.counters[LOOKED] += last - first + chains.first[last] - chains.first[first]
            if ascent.scores[s] > -np.inf:
                trace_sentence(chains, s, ascent.lattice, taken, ascent.labels)


@inner
def _sentences(chains: Any, groups: Any) -> Any:
    """(K,) in which sentence each membership's span or outside label is."""
    sentence = np.empty(len(groups.span), np.int64)
    for m in range(len(groups.span)):
        item = groups.span[m]
        t = chains.start[item] if item < len(chains.start) else item - len(chains.start)
        sentence[m] = np.searchsorted(chains.bounds, t, side="right") - 1
    return sentence
