"""A bound on what agreement costs: sentences and groups of equal words solved apart, held together by prices.

What a document loses is what its sentences lose locally plus what each group of spans with the
same words pays for disagreeing. Each span that a sentence labels must be known to its groups; a
price θ ≥ 0 nats a membership replaces that demand (Lagrangian relaxation; Rush & Collins 2012):

    bound(θ) = Σ_sentences min_y [loss(y) + Σ θ of y's spans] + Σ_groups min_u [penalty(u) − Σ θ of u].

Sentences are exact, by dynamic programming over their candidate spans. A group's minimum is taken
over the sets R of roles (type of a span of these words, or of a longer span around them) that it
uses: where both of two roles stand, n·m pairs cost at least n + m − 1 times their price, and at
least once. Subgradient steps of Polyak's length raise the bound. A span whose price-corrected loss
exceeds the incumbent's is in no better labelling.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from schemas.labels import Labels
from schemas.potentials import Floats, Potentials
from schemas.problem import NO_KEY, Problem, Relation
from workers.inference.agreement import CONTAINED, EXACT, AgreementState, Codec, codec, empty_state
from workers.inference.chain import sentence_bounds, viterbi_score
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
MOST_ROLES = 8
"""Roles a group may use; those that lose most locally are left out above it, which lowers the bound."""
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


class _Chains(NamedTuple):
    """The sentences: candidate spans ordered by start, ``first`` (N + 1,) those of each token, ``inner``
    (M,) nats from opening to last label, ``last`` (M,) that label."""

    unary: Floats
    transition: Floats
    codec: Codec
    bounds: Ints
    first: Ints
    start: Ints
    end: Ints
    kind: Ints
    inner: Floats
    last: Ints


class _Groups(NamedTuple):
    """Memberships ordered by group, slot (where the words stand) and role, and the groups' prices of pairs.

    ``slots`` bounds memberships by slot (P + 1,), ``groups`` bounds slots by group (Q + 1,). ``role``
    indexes ``pair`` (Q, R, R); ``roles`` (Q,) is how many of them a group has.
    """

    span: Ints
    role: Ints
    slots: Ints
    groups: Ints
    roles: Ints
    pair: Floats


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
    members = _memberships(state, spans.start, spans.end, spans.type)
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
        value, learned, chosen = _ascend(chains, groups, prices[at], best, upper + CLOSE, steps)
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
    members = _memberships(state, spans.start, spans.end, spans.type)
    kept, groups = _grouped(state, members)
    chains = _chains(problem, spans, np.ones(len(spans), np.bool_))
    learned = np.zeros(len(kept))
    for number in range(MOST_WARMING):
        before = upper
        value, learned, chosen = _ascend(chains, groups, learned, best, upper + CLOSE, STEPS)
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


def _chains(problem: Problem, spans: CandidateSpans, alive: NDArray[np.bool_]) -> _Chains:
    p = problem.potentials
    arrays = codec(problem)
    start, end, kind = (np.ascontiguousarray(x[alive]).astype(np.int64) for x in (spans.start, spans.end, spans.type))
    first = np.searchsorted(start, np.arange(len(problem) + 1)).astype(np.int64)
    inner, last = _inner(p.unary, p.transition, arrays, start, end, kind)
    return _Chains(p.unary, p.transition, arrays, sentence_bounds(p), first, start, end, kind, inner, last)


def _grouped(state: AgreementState, members: Ints) -> tuple[Ints, _Groups]:
    """The memberships that can cost something, ordered, and their groups."""
    types = state.cost.shape[1]
    key = members[:, 1]
    order = np.lexsort((members[:, 3], members[:, 4], key))
    ordered = members[order]
    names, first, number = np.unique(ordered[:, 1], return_index=True, return_inverse=True)
    held = np.zeros((len(names), 2 * types), np.bool_)
    held[number, ordered[:, 3]] = True
    width = ordered[first, 5]
    price = _pair_prices(state, ordered[first, 2], width)
    price *= held[:, :, None] & held[:, None, :]
    several = np.zeros(len(names), np.bool_)
    several[number[ordered[:, 4] != ordered[first, 4][number]]] = True
    useful = several & (price > 0).any(axis=(1, 2))
    # A role that pays nothing to any other role present needs no place in the group.
    paying = (price > 0).any(axis=2) & useful[:, None]
    compact = np.where(paying, np.cumsum(paying, axis=1) - 1, -1)
    compact[compact >= MOST_ROLES] = -1
    role = compact[number, ordered[:, 3]]
    kept = role >= 0
    return order[kept], _laid_out(ordered[kept], role[kept], names, price, compact)


def _laid_out(members: Ints, role: Ints, names: Ints, price: Floats, compact: Ints) -> _Groups:
    used, first = np.unique(members[:, 1], return_index=True)
    rows = np.searchsorted(names, used)
    pair = np.zeros((len(used), MOST_ROLES, MOST_ROLES))
    for q, row in enumerate(rows.tolist()):
        taken = np.flatnonzero(compact[row] >= 0)
        pair[q][: len(taken), : len(taken)] = price[row][np.ix_(taken, taken)]
    roles = (compact[rows] >= 0).sum(axis=1)
    new = np.ones(len(members), np.bool_)
    new[1:] = (members[1:, 1] != members[:-1, 1]) | (members[1:, 4] != members[:-1, 4])
    slots = np.append(np.flatnonzero(new), len(members)).astype(np.int64)
    groups = np.append(np.searchsorted(slots, first), len(slots) - 1).astype(np.int64)
    return _Groups(members[:, 0].copy(), role.astype(np.int64), slots, groups, roles.astype(np.int64), pair)


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


@njit(cache=True, nogil=True)
def _memberships(state: Any, start: Any, end: Any, kind: Any) -> Any:
    """(K, 6) span, group, table, role, slot, width: what each span's words and their parts belong to."""
    types = state.cost.shape[1]
    size = state.counts.shape[1]
    around = (state.relation == CONTAINED).any()
    rows = np.empty((max(16, 4 * len(start)), 6), np.int64)
    count = 0
    for i in range(len(start)):
        length = end[i] - start[i]
        if length > state.keys.shape[2]:
            continue
        for g in range(len(state.keys)):
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


@njit(cache=True, nogil=True)
def _inner(unary: Any, transition: Any, codec: Any, start: Any, end: Any, kind: Any) -> Any:
    inner = np.empty(len(start))
    last = np.empty(len(start), np.int64)
    for i in range(len(start)):
        label = codec.opening[kind[i]]
        inner[i] = unary[start[i], label]
        for t in range(start[i] + 1, end[i]):
            following = codec.inside[kind[i]]
            inner[i] += transition[label, following] + unary[t, following]
            label = following
        last[i] = label
    return inner, last


@njit(cache=True, nogil=True)
def _enter(chains: Any, reached: Any, t: Any, label: Any) -> Any:
    """Best score of what stands before t given ``label`` opens there, and the label before it (−1: none)."""
    if chains.codec.opens_sentence[t]:
        return 0.0, -1
    best, before = -np.inf, -1
    for other in range(chains.unary.shape[1]):
        if not chains.codec.continues[other, label]:
            value = reached[t - 1, other] + chains.transition[other, label]
            if value > best:
                best, before = value, other
    return best, before


@njit(cache=True, nogil=True)
def _forward(chains: Any, charge: Any, reached: Any, entered: Any, from_span: Any, from_label: Any) -> Any:
    """Best score of every prefix that ends with a whole span or an outside label; returns the sentences' sum.

    ``charge`` (M,) is taken off each span's score.
    """
    reached[:] = -np.inf
    outside = np.flatnonzero(chains.codec.type_of < 0)
    total = 0.0
    for s in range(len(chains.bounds) - 1):
        for t in range(chains.bounds[s], chains.bounds[s + 1]):
            for label in outside:
                value, before = _enter(chains, reached, t, label)
                reached[t, label] = value + chains.unary[t, label]
                from_span[t, label] = -1
                from_label[t, label] = before
            if chains.first[t] == chains.first[t + 1]:
                continue
            for kind in range(len(chains.codec.opening)):
                entered[kind] = -np.inf
            for i in range(chains.first[t], chains.first[t + 1]):
                kind = chains.kind[i]
                if entered[kind] == -np.inf:
                    entered[kind] = _enter(chains, reached, t, chains.codec.opening[kind])[0]
                value = entered[kind] + chains.inner[i] - charge[i]
                last = chains.end[i] - 1
                if value > reached[last, chains.last[i]]:
                    reached[last, chains.last[i]] = value
                    from_span[last, chains.last[i]] = i
        total += reached[chains.bounds[s + 1] - 1].max()
    return total


@njit(cache=True, nogil=True)
def _trace(chains: Any, reached: Any, from_span: Any, from_label: Any, taken: Any, labels: Any) -> None:
    """Marks the spans of the best labelling and writes its labels."""
    taken[:] = False
    for s in range(len(chains.bounds) - 1):
        t = chains.bounds[s + 1] - 1
        label = np.argmax(reached[t])
        while t >= chains.bounds[s]:
            i = from_span[t, label]
            if i < 0:
                labels[t] = label
                label = from_label[t, label]
                t -= 1
                continue
            taken[i] = True
            labels[chains.start[i]] = chains.codec.opening[chains.kind[i]]
            labels[chains.start[i] + 1 : chains.end[i]] = chains.codec.inside[chains.kind[i]]
            t = chains.start[i] - 1
            label = _enter(chains, reached, chains.start[i], chains.codec.opening[chains.kind[i]])[1]


@njit(cache=True, nogil=True)
def _tabulate(groups: Any, q: int, prices: Any, gain: Any) -> Any:
    """Writes the best price of each role at each slot of group q; returns the slots and what they give at most."""
    total = 0.0
    first = groups.groups[q]
    for p in range(first, groups.groups[q + 1]):
        best = 0.0
        for r in range(groups.roles[q]):
            gain[p - first, r] = -np.inf
        for m in range(groups.slots[p], groups.slots[p + 1]):
            gain[p - first, groups.role[m]] = max(gain[p - first, groups.role[m]], prices[m])
            best = max(best, prices[m])
        total += best
    return groups.groups[q + 1] - first, total


@njit(cache=True, nogil=True)
def _set_terms(groups: Any, q: int, roles: int, charge: Any) -> Any:
    """What each role in the set pays a slot, and the price of all its pairs."""
    once = 0.0
    for r in range(groups.roles[q]):
        charge[r] = 0.0
        if roles >> r & 1:
            for other in range(groups.roles[q]):
                if roles >> other & 1:
                    charge[r] += groups.pair[q, r, other]
            once += charge[r] / 2.0
    return once


@njit(cache=True, nogil=True)
def _set_value(gain: Any, slots: int, count: int, roles: int, charge: Any, once: float) -> Any:
    """What a group costs at least that uses just these roles: by pairs (and what using each role adds), and with
    each pair paid once."""
    by_pair, by_once, regret = -once, once, 0.0
    short = np.full(count, np.inf)
    for p in range(slots):
        most, free = 0.0, 0.0
        for r in range(count):
            if roles >> r & 1:
                most = max(most, gain[p, r] - charge[r])
                free = max(free, gain[p, r])
        by_pair -= most
        by_once -= free
        for r in range(count):
            if roles >> r & 1:
                short[r] = min(short[r], most - gain[p, r] + charge[r])
    for r in range(count):
        if roles >> r & 1:
            regret = max(regret, short[r])
    return by_pair, by_once, regret


@njit(cache=True, nogil=True)
def _group(groups: Any, q: int, prices: Any, gain: Any, charge: Any, known: Any) -> Any:
    """The group's minimum; marks in ``known`` the memberships of one that attains it."""
    slots, total = _tabulate(groups, q, prices, gain)
    count = groups.roles[q]
    best, chosen, charged = 0.0, 0, False
    if total > 0.0:
        for roles in range(1, 1 << count):
            once = _set_terms(groups, q, roles, charge)
            if once - total >= best:
                continue
            by_pair, by_once, regret = _set_value(gain, slots, count, roles, charge, once)
            value = max(by_pair + regret, by_once)
            if value < best:
                best, chosen, charged = value, roles, by_pair + regret >= by_once
    _set_terms(groups, q, chosen, charge)
    for p in range(groups.groups[q], groups.groups[q + 1]):
        most, taken = 0.0, -1
        for m in range(groups.slots[p], groups.slots[p + 1]):
            known[m] = False
            r = groups.role[m]
            if chosen >> r & 1:
                value = prices[m] - (charge[r] if charged else 0.0)
                if value > most:
                    most, taken = value, m
        if taken >= 0:
            known[taken] = True
    return best


@njit(cache=True, nogil=True)
def _ascend(chains: Any, groups: Any, prices: Any, optimum: float, upper: float, steps: int) -> Any:
    """Subgradient ascent: the best bound in nats of loss, its prices, and the sentences' labels under them."""
    count, width = chains.unary.shape
    reached, charge = np.empty((count, width)), np.zeros(len(chains.start))
    from_span, from_label = np.empty((count, width), np.int64), np.empty((count, width), np.int64)
    entered = np.empty(len(chains.codec.opening))
    taken, known = np.zeros(len(chains.start), np.bool_), np.zeros(len(prices), np.bool_)
    labels, best_labels = np.zeros(count, np.int32), np.zeros(count, np.int32)
    most_slots = 1
    for q in range(len(groups.roles)):
        most_slots = max(most_slots, groups.groups[q + 1] - groups.groups[q])
    gain, terms = np.empty((most_slots, groups.pair.shape[1])), np.empty(groups.pair.shape[1])
    best, best_prices = -np.inf, prices.copy()
    relaxation, idle = 1.0, 0
    now = prices.copy()
    for _ in range(steps):
        charge[:] = 0.0
        for m in range(len(now)):
            charge[groups.span[m]] += now[m]
        value = optimum - _forward(chains, charge, reached, entered, from_span, from_label)
        _trace(chains, reached, from_span, from_label, taken, labels)
        for q in range(len(groups.roles)):
            value += _group(groups, q, now, gain, terms, known)
        if value > best + 1e-6:
            idle = 0
        else:
            idle += 1
        if value > best:
            best = value
            best_prices[:] = now
            best_labels[:] = labels
        if best >= upper:
            break
        norm = 0.0
        for m in range(len(now)):
            step = int(taken[groups.span[m]]) - int(known[m])
            if step > 0 or now[m] > 0.0:
                norm += step * step
        if norm == 0.0:
            break
        if idle >= 4:
            relaxation *= 0.6
            idle = 0
            now[:] = best_prices
            continue
        length = relaxation * (upper - value) / norm
        for m in range(len(now)):
            now[m] = max(0.0, now[m] + length * (int(taken[groups.span[m]]) - int(known[m])))
    return best, best_prices, best_labels


def _price_losses(chains: _Chains, groups: _Groups, prices: Floats, limit: float) -> tuple[Floats, Floats]:
    """What having each span (M,), and each outside label at each token (N, L), adds to the bound at least, in nats."""
    charge = np.bincount(groups.span, prices, len(chains.start))
    span_loss, outside_loss = _chain_losses(chains, charge)
    np.add.at(span_loss, groups.span, _member_losses(groups, prices, limit))
    return span_loss, outside_loss


@njit(cache=True, nogil=True)
def _chain_losses(chains: Any, charge: Any) -> Any:
    count, width = chains.unary.shape
    reached, remaining = np.empty((count, width)), np.zeros((count, width))
    from_span, from_label = np.empty((count, width), np.int64), np.empty((count, width), np.int64)
    opened = np.empty(len(chains.codec.opening))
    _forward(chains, charge, reached, opened, from_span, from_label)
    span_loss, outside_loss = np.empty(len(charge)), np.full((count, width), np.inf)
    outside = np.flatnonzero(chains.codec.type_of < 0)
    for s in range(len(chains.bounds) - 1):
        best = reached[chains.bounds[s + 1] - 1].max()
        for t in range(chains.bounds[s + 1] - 1, chains.bounds[s] - 1, -1):
            # ``remaining[t]``: the best from t + 1 on, given the label at t. Later tokens are done.
            for label in outside:
                outside_loss[t, label] = best - (reached[t, label] + remaining[t, label])
            opened[:] = -np.inf
            for i in range(chains.first[t], chains.first[t + 1]):
                kind = chains.kind[i]
                rest = chains.inner[i] - charge[i] + remaining[chains.end[i] - 1, chains.last[i]]
                span_loss[i] = best - (_enter(chains, reached, t, chains.codec.opening[kind])[0] + rest)
                opened[kind] = max(opened[kind], rest)
            if t == chains.bounds[s]:
                continue
            for before in range(width):
                most = -np.inf
                for following in outside:
                    rest = chains.unary[t, following] + remaining[t, following]
                    most = max(most, chains.transition[before, following] + rest)
                for kind in range(len(opened)):
                    opening = chains.codec.opening[kind]
                    if opened[kind] > -np.inf and not chains.codec.continues[before, opening]:
                        most = max(most, chains.transition[before, opening] + opened[kind])
                remaining[t - 1, before] = most
    return span_loss, outside_loss


@njit(cache=True, nogil=True)
def _member_losses(groups: Any, prices: Any, limit: float) -> Any:
    """(K,) what a group's minimum grows at least if this membership is known to it; inf for more than ``limit``."""
    losses = np.full(len(prices), np.inf)
    known = np.empty(len(prices), np.bool_)
    most_slots = 1
    for q in range(len(groups.roles)):
        most_slots = max(most_slots, groups.groups[q + 1] - groups.groups[q])
    gain, charge = np.empty((most_slots, groups.pair.shape[1])), np.empty(groups.pair.shape[1])
    for q in range(len(groups.roles)):
        least = _group(groups, q, prices, gain, charge, known)
        slots, total = _tabulate(groups, q, prices, gain)
        count = groups.roles[q]
        for roles in range(1, 1 << count):
            once = _set_terms(groups, q, roles, charge)
            if once - total > least + limit:
                continue
            by_pair, by_once, _ = _set_value(gain, slots, count, roles, charge, once)
            if max(by_pair, by_once) > least + limit:
                continue
            for p in range(groups.groups[q], groups.groups[q + 1]):
                most, free = 0.0, 0.0
                for r in range(count):
                    if roles >> r & 1:
                        most = max(most, gain[p - groups.groups[q], r] - charge[r])
                        free = max(free, gain[p - groups.groups[q], r])
                for m in range(groups.slots[p], groups.slots[p + 1]):
                    r = groups.role[m]
                    if roles >> r & 1:
                        paired = by_pair + most - prices[m] + charge[r]
                        losses[m] = min(losses[m], max(paired, by_once + free - prices[m]) - least)
    return np.maximum(losses, 0.0)
