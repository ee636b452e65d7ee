"""Kernels of the relaxation of agreement: what belongs to which group, and the ascent of its prices."""

from __future__ import annotations

from typing import Any

import numpy as np

from schemas.problem import NO_KEY
from workers.compiling.kernel import inner, inner_in_place, kernel
from workers.inference.core.agreement import CONTAINED
from workers.inference.relaxation.groups import group_cost, room_for
from workers.inference.relaxation.sentences import lattice_for, solve_sentence, trace_sentence

MOMENTUM = 0.9
PATIENCE = 4
SHORTER = 0.5
"""Steps without a better bound before they are made shorter, and by which factor."""


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


@kernel
def ascend(chains: Any, groups: Any, prices: Any, optimum: float, upper: float, steps: int) -> Any:
    """Subgradient ascent: the best bound in nats of loss, its prices, and the sentences' labels under them.

    The bound is inf, and the labels mean nothing, where some sentence cannot be made of the spans and outside labels.
    Steps go along subgradients with momentum (deflected as in Camerini, Fratta & Maffioli 1975), else
    they zigzag between the ways in which a group can agree.
    """
    count = len(chains.unary)
    lattice, charge = lattice_for(chains), np.zeros(len(chains.start) + count)
    taken, known = np.zeros(len(charge), np.bool_), np.zeros(len(prices), np.bool_)
    labels, best_labels = np.zeros(count, np.int32), np.zeros(count, np.int32)
    room = room_for(groups)
    best, best_prices = -np.inf, prices.copy()
    relaxation, idle = 1.0, 0
    sentence = _sentences(chains, groups)
    # What has no price is never solved differently, and the rest only where a price moved.
    moved, scores = np.zeros(len(chains.bounds) - 1, np.bool_), np.zeros(len(chains.bounds) - 1)
    moved[sentence] = True
    _solve_sentences(chains, charge, lattice, taken, labels, ~moved, scores)
    moved_groups, costs = np.ones(len(groups.roles), np.bool_), np.zeros(len(groups.roles))
    now, direction = prices.copy(), np.zeros(len(prices))
    for _ in range(steps):
        charge[:] = 0.0
        for m in range(len(now)):
            charge[groups.span[m]] += now[m]
        _solve_sentences(chains, charge, lattice, taken, labels, moved, scores)
        for q in range(len(costs)):
            if moved_groups[q]:
                costs[q] = group_cost(groups, q, now, room, known)
        value = optimum - scores.sum() + costs.sum()
        idle = 0 if value > best + 1e-6 else idle + 1
        if value > best:
            best = value
            best_prices[:] = now
            best_labels[:] = labels
        if best >= upper:
            break
        norm = 0.0
        for m in range(len(now)):
            direction[m] = MOMENTUM * direction[m] + int(taken[groups.span[m]]) - int(known[m])
            if direction[m] < 0.0 and now[m] == 0.0:
                direction[m] = 0.0
            norm += direction[m] ** 2
        if norm == 0.0:
            break
        if idle >= PATIENCE:
            relaxation *= SHORTER
            idle = 0
        moved[:], moved_groups[:] = False, False
        _step(groups, sentence, now, relaxation * (upper - value) / norm * direction, moved, moved_groups)
    return best, best_prices, best_labels


@inner_in_place
def _step(groups: Any, sentence: Any, prices: Any, change: Any, moved: Any, moved_groups: Any) -> None:
    """Moves prices, none below 0, and marks the sentences and groups in which any did."""
    for q in range(len(groups.roles)):
        for m in range(groups.slots[groups.groups[q]], groups.slots[groups.groups[q + 1]]):
            if change[m] != 0.0:
                prices[m] = max(0.0, prices[m] + change[m])
                moved[sentence[m]], moved_groups[q] = True, True


@inner_in_place
def _solve_sentences(chains: Any, charge: Any, lattice: Any, taken: Any, labels: Any, wanted: Any, scores: Any) -> None:
    """Solves the sentences ``wanted`` (S,); their ``scores`` (S,) in nats are −inf where no spans make one."""
    for s in range(len(wanted)):
        if wanted[s]:
            first, last = chains.bounds[s], chains.bounds[s + 1]
            taken[chains.first[first] : chains.first[last]] = False
            taken[len(chains.start) + first : len(chains.start) + last] = False
            scores[s] = solve_sentence(chains, s, charge, lattice)
            if scores[s] > -np.inf:
                trace_sentence(chains, s, lattice, taken, labels)


@inner
def _sentences(chains: Any, groups: Any) -> Any:
    """(K,) in which sentence each membership's span or outside label is."""
    sentence = np.empty(len(groups.span), np.int64)
    for m in range(len(groups.span)):
        item = groups.span[m]
        t = chains.start[item] if item < len(chains.start) else item - len(chains.start)
        sentence[m] = np.searchsorted(chains.bounds, t, side="right") - 1
    return sentence
