"""A Lagrangian bound on span agreement, and the fixing of what it shows to be hopeless.

Every pair of span places whose types can disagree is a small problem of its own, tied to the
chains by multipliers: a message m for a place p and a type x is paid by the chain and given to the
pair (dual decomposition). For any messages

    Σ_sentences max_path [local − Σ m]  −  Σ_pairs min_{x, y} [cost(x, y) − m_p(x) − m_q(y)]

is an upper bound on the objective, and a subgradient step towards the incumbent lowers it. A
segment that no path within bound − incumbent of the best can take is in no better labelling, so
it goes, which makes the next bounds lower still (reduced-cost fixing). "None" is an outcome of a
place like every type, and goes in the same way.

Sentences are graphs of segments: an outside token, or a candidate span with its type.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from schemas.labels import Spans
from schemas.problem import NO_KEY, Problem
from workers.inference.agreement import CONTAINED, DIFFERENT, AgreementState, codec, empty_state
from workers.inference.chain import sentence_bounds

Ints = NDArray[np.int64]

ROUND = 25
"""Subgradient steps between two rounds of fixing."""

HARD = 1e6
"""Nats that stand in for an infinite cost: a lower cost only raises the bound."""


class Segments(NamedTuple):
    """Segment graphs of all sentences, by first token: those of token t are ``pointer[t]:pointer[t + 1]``.

    ``first`` and ``last`` are the labels at both ends, ``score`` the local score inside (nats),
    ``place`` the span place (−1: an outside token), ``type`` its type, ``alive`` (M,) what is left.
    """

    pointer: Ints
    start: Ints
    end: Ints
    first: Ints
    last: Ints
    score: NDArray[np.float64]
    place: Ints
    type: Ints
    alive: NDArray[np.bool_]


class Pairs(NamedTuple):
    """Pairs of places: ``cost`` (F, T, T) nats, and the messages to both ends (F, T)."""

    one: Ints
    other: Ints
    cost: NDArray[np.float64]
    to_one: NDArray[np.float64]
    to_other: NDArray[np.float64]


class Chains(NamedTuple):
    """What the kernels read: transitions, where spans would merge, sentence bounds, and span places.

    ``outcome`` (P, T + 1) is which types a place can still have, last: none. ``longest`` (1,) is the
    longest place in tokens.
    """

    transition: NDArray[np.float64]
    continues: NDArray[np.bool_]
    bounds: Ints
    place_start: Ints
    outcome: NDArray[np.bool_]
    longest: Ints


class Dual(NamedTuple):
    """The whole dual problem of one component."""

    segments: Segments
    pairs: Pairs
    chains: Chains


def dual_of(problem: Problem, spans: Spans, allowed: NDArray[np.bool_], *, most_pairs: int) -> Dual | None:
    """The dual over candidate ``spans`` and the outside labels in ``allowed`` (N, L).

    None where the problem has rows, or more than ``most_pairs`` pairs of places.
    """
    if len(problem.rows) or not problem.agreements:
        return None
    places, place = np.unique(np.stack([spans.start, spans.end], 1), axis=0, return_inverse=True)
    place = place.reshape(-1)
    types = len(problem.labels.types)
    present = np.zeros((len(places), types), np.bool_)
    present[place, spans.type] = True
    state = empty_state(problem, HARD)
    found = _pairs_of_places(state, places, present, *_by_key(state, places), most_pairs)
    one, other, agreement, times = found
    if len(one) > most_pairs:
        return None
    messages = np.zeros((2, len(one), types))
    chains = Chains(
        problem.potentials.transition,
        problem.labels.continues,
        sentence_bounds(problem.potentials),
        np.ascontiguousarray(places[:, 0]),
        np.concatenate([present, np.ones((len(places), 1), np.bool_)], axis=1),
        np.array([(places[:, 1] - places[:, 0]).max(initial=1)]),
    )
    pairs = Pairs(one, other, state.cost[agreement] * times[:, None, None], messages[0], messages[1])
    return Dual(_segments(problem, spans, place, allowed), pairs, chains)


def survivors(dual: Dual, width: int) -> tuple[NDArray[np.bool_], Spans]:
    """What fixing left: allowed labels (N, ``width``) and spans."""
    segments = dual.segments
    allowed = np.zeros((len(segments.pointer) - 1, width), np.bool_)
    kept = np.flatnonzero(segments.alive)
    allowed[segments.start[kept], segments.first[kept]] = True
    length = segments.end[kept] - segments.start[kept]
    for offset in range(1, int(length.max(initial=1))):
        longer = kept[length > offset]
        allowed[segments.start[longer] + offset, segments.last[longer]] = True
    spans = kept[segments.place[kept] >= 0]
    return allowed, Spans(segments.start[spans], segments.end[spans], segments.type[spans].astype(np.int32))


def _segments(problem: Problem, spans: Spans, place: Ints, allowed: NDArray[np.bool_]) -> Segments:
    arrays = codec(problem)
    outside = np.flatnonzero(arrays.type_of < 0)
    token, which = np.nonzero(allowed[:, outside])
    start = np.concatenate([token, spans.start])
    end = np.concatenate([token + 1, spans.end])
    kind = np.concatenate([np.full(len(token), -1), spans.type]).astype(np.int64)
    first = np.concatenate([outside[which], arrays.opening[spans.type]]).astype(np.int64)
    inside = np.concatenate([outside[which], arrays.inside[spans.type]]).astype(np.int64)
    order = np.argsort(start, kind="stable")
    p = problem.potentials
    score = _inner_scores(p.unary, p.transition, start, end, first, inside)
    return Segments(
        np.searchsorted(start[order], np.arange(len(problem) + 1)).astype(np.int64),
        start[order],
        end[order],
        first[order],
        np.where(end - start > 1, inside, first)[order],
        score[order],
        np.concatenate([np.full(len(token), -1), place])[order].astype(np.int64),
        kind[order],
        np.isfinite(score[order]),
    )


@njit(cache=True, nogil=True)
def _inner_scores(unary: Any, transition: Any, start: Any, end: Any, first: Any, inside: Any) -> Any:
    scores = np.empty(len(start))
    for i in range(len(start)):
        label = first[i]
        total = unary[start[i], label]
        for t in range(start[i] + 1, end[i]):
            total += transition[label, inside[i]] + unary[t, inside[i]]
            label = inside[i]
        scores[i] = total
    return scores


def _by_key(state: AgreementState, places: Ints) -> tuple[Ints, Ints]:
    """Places ordered by key, of each key table (G, P), and each key's part of that order."""
    width = places[:, 1] - places[:, 0]
    short = width <= state.keys.shape[2]
    tables, size = len(state.keys), state.counts.shape[1]
    order = np.zeros((tables, len(places)), np.int64)
    pointer = np.zeros((tables, size + 1), np.int64)
    for g in range(tables):
        keys = np.full(len(places), NO_KEY, np.int64)
        keys[short] = state.keys[g, places[short, 0], width[short] - 1]
        known = np.flatnonzero(keys != NO_KEY)
        order[g, : len(known)] = known[np.argsort(keys[known], kind="stable")]
        pointer[g, 1:] = np.cumsum(np.bincount(keys[known], minlength=size))
    return order, pointer


@njit(cache=True, nogil=True)
def _pairs_of_places(state: Any, places: Any, present: Any, order: Any, pointer: Any, most: int) -> Any:
    """Pairs (one, other, agreement, times) that can cost something; stops after ``most`` of them."""
    found = np.empty((1024, 3), np.int64)
    times = np.empty(1024)
    count = 0
    for a in range(len(state.table)):
        g = state.table[a]
        contained = state.relation[a] == CONTAINED
        for i in range(len(places)):
            start, end = places[i, 0], places[i, 1]
            length = end - start
            if length > state.keys.shape[2]:
                continue
            # The spans whose key counts: every proper part of this one, or this one itself.
            shortest, longest = (1, length - 1) if contained else (length, length)
            for width in range(shortest, longest + 1):
                for at in range(start, end - width + 1):
                    key = state.keys[g, at, width - 1]
                    if key == NO_KEY or _repeated(state.keys, g, key, start, at, width):
                        continue
                    same = (pointer[g, key], pointer[g, key + 1])
                    first, last = (0, pointer[g, -1]) if state.relation[a] == DIFFERENT else same
                    for slot in range(first, last):
                        j = order[g, slot]
                        if not contained and j <= i:
                            continue
                        if state.relation[a] == DIFFERENT and same[0] <= slot < same[1]:
                            continue
                        overlap = places[j, 0] < end and start < places[j, 1]
                        if overlap or not _matters(state.cost[a], present[i], present[j]):
                            continue
                        if count == len(found):
                            found = np.concatenate((found, np.empty_like(found)))
                            times = np.concatenate((times, np.empty_like(times)))
                        found[count] = i, j, a
                        times[count] = width if state.per_token[a] else 1.0
                        count += 1
                        if count > most:
                            return found[:count, 0], found[:count, 1], found[:count, 2], times[:count]
    return found[:count, 0].copy(), found[:count, 1].copy(), found[:count, 2].copy(), times[:count].copy()


@njit(cache=True, nogil=True)
def _repeated(keys: Any, g: int, key: int, start: int, at: int, width: int) -> Any:
    for earlier in range(start, at):
        if keys[g, earlier, width - 1] == key:
            return True
    return False


@njit(cache=True, nogil=True)
def _matters(cost: Any, one: Any, other: Any) -> Any:
    for x in range(len(one)):
        for y in range(len(other)):
            if one[x] and other[y] and cost[x, y] > 0.0:
                return True
    return False


@njit(cache=True, nogil=True)
def descend(dual: Any, target: float, steps: int, pace: float, tokens: int) -> Any:
    """Subgradient steps; returns the best bound, the paths' last labelling (N,), and the pace to go on with.

    ``target`` is the incumbent's objective in nats, ``pace`` scales Polyak's step length.
    """
    segments, pairs, chains = dual
    labels = np.zeros(tokens, np.int32)
    chosen = np.full(len(chains.place_start), -1, np.int64)
    paid = _paid(pairs, chains.outcome)
    best = np.inf
    stale = 0
    picks = np.empty((len(pairs.one), 2), np.int64)
    for _ in range(steps):
        bound = _paths(segments, chains, paid, labels, chosen)
        norm = 0.0
        for f in range(len(pairs.one)):
            least, x, y = _least(pairs, f, chains.outcome)
            bound -= least
            picks[f, 0], picks[f, 1] = x, y
            norm += _mismatch(x, chosen[pairs.one[f]]) + _mismatch(y, chosen[pairs.other[f]])
        stale += 1
        if bound < best - 1e-9:
            best, stale = bound, 0
        if stale == 5:
            pace, stale = pace * 0.7, 0
        if norm == 0.0 or best <= target:
            break
        step = pace * (bound - target) / norm
        for f in range(len(pairs.one)):
            _shift(pairs.to_one, f, picks[f, 0], chosen[pairs.one[f]], step, paid, pairs.one[f])
            _shift(pairs.to_other, f, picks[f, 1], chosen[pairs.other[f]], step, paid, pairs.other[f])
    return best, labels, pace


@njit(cache=True, nogil=True)
def _mismatch(pick: int, chosen: int) -> Any:
    if pick == chosen:
        return 0.0
    return (1.0 if pick >= 0 else 0.0) + (1.0 if chosen >= 0 else 0.0)


@njit(cache=True, nogil=True)
def _shift(messages: Any, f: int, pick: int, chosen: int, step: float, paid: Any, place: int) -> None:
    if pick == chosen:
        return
    if chosen >= 0:
        messages[f, chosen] += step
        paid[place, chosen] += step
    if pick >= 0:
        messages[f, pick] -= step
        paid[place, pick] -= step


@njit(cache=True, nogil=True)
def _paid(pairs: Any, outcome: Any) -> Any:
    """(P, T) what the chains pay for each type of each place: the sum of its messages."""
    paid = np.zeros((len(outcome), outcome.shape[1] - 1))
    for f in range(len(pairs.one)):
        for x in range(paid.shape[1]):
            paid[pairs.one[f], x] += pairs.to_one[f, x]
            paid[pairs.other[f], x] += pairs.to_other[f, x]
    return paid


@njit(cache=True, nogil=True)
def _least(pairs: Any, f: int, outcome: Any) -> Any:
    """The cheapest outcome of a pair under the messages: its value in nats, and both types (−1: none)."""
    types = outcome.shape[1] - 1
    best, pick_one, pick_other = np.inf, -1, -1
    for x in range(-1, types):
        for y in range(-1, types):
            if outcome[pairs.one[f], x] and outcome[pairs.other[f], y]:
                value = _pair_value(pairs, f, x, y)
                if value < best:
                    best, pick_one, pick_other = value, x, y
    return best, pick_one, pick_other


@njit(cache=True, nogil=True)
def _pair_value(pairs: Any, f: int, x: int, y: int) -> Any:
    value = pairs.cost[f, x, y] if x >= 0 and y >= 0 else 0.0
    if x >= 0:
        value -= pairs.to_one[f, x]
    if y >= 0:
        value -= pairs.to_other[f, y]
    return value


@njit(cache=True, nogil=True)
def _enter(chains: Any, forward: Any, first_token: int, t: int, label: int) -> Any:
    """Best score up to a segment that opens at ``t`` with ``label``, and the label before it."""
    if t == first_token:
        return 0.0, -1
    best, source = -np.inf, -1
    for previous in range(forward.shape[1]):
        if not chains.continues[previous, label]:
            value = forward[t - 1, previous] + chains.transition[previous, label]
            if value > best:
                best, source = value, previous
    return best, source


@njit(cache=True, nogil=True)
def _leave(chains: Any, onward: Any, t: int, label: int) -> Any:
    """Best score of what follows a segment that ends before ``t`` with ``label``."""
    best = -np.inf
    for following in range(onward.shape[1]):
        if not chains.continues[label, following]:
            best = max(best, chains.transition[label, following] + onward[t, following])
    return best


@njit(cache=True, nogil=True)
def _worth(segments: Any, paid: Any, e: int) -> Any:
    """A segment's local score less what its span pays."""
    if segments.place[e] < 0:
        return segments.score[e]
    return segments.score[e] - paid[segments.place[e], segments.type[e]]


@njit(cache=True, nogil=True)
def _forward(segments: Any, chains: Any, paid: Any, forward: Any, by: Any) -> None:
    """Best score of a path whose segment ends at token t with label l (N, L), and that segment."""
    forward[:] = -np.inf
    entered = np.empty(forward.shape[1])
    for s in range(len(chains.bounds) - 1):
        for t in range(chains.bounds[s], chains.bounds[s + 1]):
            entered[:] = np.nan
            for e in range(segments.pointer[t], segments.pointer[t + 1]):
                if not segments.alive[e]:
                    continue
                first = segments.first[e]
                if np.isnan(entered[first]):
                    entered[first] = _enter(chains, forward, chains.bounds[s], t, first)[0]
                value = entered[first] + _worth(segments, paid, e)
                last = segments.end[e] - 1
                if value > forward[last, segments.last[e]]:
                    forward[last, segments.last[e]] = value
                    by[last, segments.last[e]] = e


@njit(cache=True, nogil=True)
def _paths(segments: Any, chains: Any, paid: Any, labels: Any, chosen: Any) -> Any:
    """The best path of every sentence: sum of scores; writes its labels and the type at each place."""
    forward = np.empty((len(labels), len(chains.transition)))
    by = np.zeros(forward.shape, np.int64)
    _forward(segments, chains, paid, forward, by)
    chosen[:] = -1
    total = 0.0
    for s in range(len(chains.bounds) - 1):
        t = chains.bounds[s + 1] - 1
        label = int(np.argmax(forward[t]))
        total += forward[t, label]
        while t >= chains.bounds[s]:
            e = by[t, label]
            start = segments.start[e]
            labels[start : t + 1] = segments.last[e]
            labels[start] = segments.first[e]
            if segments.place[e] >= 0:
                chosen[segments.place[e]] = segments.type[e]
            label = _enter(chains, forward, chains.bounds[s], start, segments.first[e])[1]
            t = start - 1
    return total


@njit(cache=True, nogil=True)
def fix(dual: Any, target: float, tokens: int) -> Any:
    """Drops what no labelling better than ``target`` nats can have; returns how many segments went.

    A segment is judged by the best path through it and by what each pair of its place costs at
    least, given its type; "none" by the best path past the place.
    """
    segments, pairs, chains = dual
    types = chains.outcome.shape[1] - 1
    paid = _paid(pairs, chains.outcome)
    extra = np.zeros(chains.outcome.shape)
    bound = 0.0
    for f in range(len(pairs.one)):
        bound -= _given(pairs, f, chains.outcome, extra)
    forward = np.empty((tokens, len(chains.transition)))
    _forward(segments, chains, paid, forward, np.zeros(forward.shape, np.int64))
    lost = _losses(segments, chains, paid, forward)
    for s in range(len(chains.bounds) - 1):
        bound += forward[chains.bounds[s + 1] - 1].max()
    gone = 0
    chains.outcome[:, :types] = False
    for e in range(len(segments.alive)):
        if not segments.alive[e]:
            continue
        place = segments.place[e]
        more = extra[place, segments.type[e]] if place >= 0 else 0.0
        if bound - lost[e] - more < target:
            segments.alive[e] = False
            gone += 1
        elif place >= 0:
            chains.outcome[place, segments.type[e]] = True
    for place in range(len(chains.outcome)):
        if chains.outcome[place, types]:
            least = _past(segments, chains, lost, place) + extra[place, types]
            chains.outcome[place, types] = bound - least >= target
    return gone


@njit(cache=True, nogil=True)
def _given(pairs: Any, f: int, outcome: Any, extra: Any) -> Any:
    """A pair's least cost; adds to ``extra`` how much more it is given each outcome of either end."""
    least = _least(pairs, f, outcome)[0]
    one, other = pairs.one[f], pairs.other[f]
    for x in range(-1, outcome.shape[1] - 1):
        by_one, by_other = np.inf, np.inf
        for y in range(-1, outcome.shape[1] - 1):
            if outcome[one, x] and outcome[other, y]:
                by_one = min(by_one, _pair_value(pairs, f, x, y))
            if outcome[one, y] and outcome[other, x]:
                by_other = min(by_other, _pair_value(pairs, f, y, x))
        if by_one < np.inf:
            extra[one, x] += by_one - least
        if by_other < np.inf:
            extra[other, x] += by_other - least
    return least


@njit(cache=True, nogil=True)
def _losses(segments: Any, chains: Any, paid: Any, forward: Any) -> Any:
    """(M,) by how much the best path through each segment falls short of its sentence's best."""
    onward = np.full(forward.shape, -np.inf)
    lost = np.full(len(segments.alive), np.inf)
    for s in range(len(chains.bounds) - 1):
        first, last = chains.bounds[s], chains.bounds[s + 1]
        best = forward[last - 1].max()
        for t in range(last - 1, first - 1, -1):
            for e in range(segments.pointer[t], segments.pointer[t + 1]):
                if not segments.alive[e]:
                    continue
                rest = 0.0 if segments.end[e] == last else _leave(chains, onward, segments.end[e], segments.last[e])
                value = _worth(segments, paid, e) + rest
                onward[t, segments.first[e]] = max(onward[t, segments.first[e]], value)
                lost[e] = best - (_enter(chains, forward, first, t, segments.first[e])[0] + value)
    return lost


@njit(cache=True, nogil=True)
def _past(segments: Any, chains: Any, lost: Any, place: int) -> Any:
    """The least loss of a path that takes another segment over the place's first token."""
    token = chains.place_start[place]
    least = np.inf
    for e in range(segments.pointer[max(0, token - chains.longest[0] + 1)], segments.pointer[token + 1]):
        if segments.alive[e] and segments.place[e] != place and segments.end[e] > token:
            least = min(least, lost[e])
    return least
