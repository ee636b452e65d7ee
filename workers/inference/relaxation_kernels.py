"""Kernels of the relaxation of agreement: sentences and groups of equal words under prices, and the ascent."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from schemas.potentials import Floats
from schemas.problem import NO_KEY
from workers.inference.agreement import CONTAINED, Codec

Ints = NDArray[np.int64]

MOST_COUNTED = 16
"""Slots of a role that are told apart by number; all larger numbers are bounded together."""
MOST_BOXES = 256
"""Boxes of counts that a group is looked at in before what is left is bounded together."""


class Chains(NamedTuple):
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


class Groups(NamedTuple):
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


@njit(cache=True, nogil=True)
def memberships(state: Any, start: Any, end: Any, kind: Any) -> Any:
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
def inner_scores(unary: Any, transition: Any, codec: Any, start: Any, end: Any, kind: Any) -> Any:
    """(M,) nats of each span from its first label to its last, and (M,) that last label."""
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


class Room(NamedTuple):
    """Where a group is worked out, box by box: a box says how many slots have each role.

    ``gain`` (P, R) is a slot's best price of each role, −inf where it has no such span; ``holders`` (R,)
    counts the slots that have one. ``low`` (R,) is the
    least number of slots with a role; where it is ``counted`` (R,), the exact one. ``charge`` (R,) is what
    a role that is not counted pays a slot, ``base`` (P,) what a slot gains at most without counted
    roles. ``top`` (R, C + 1) is what a counted role adds to that on the slots where it adds most, and ``at``
    which slots those are: the ``low`` best, and the next. ``branched`` (R,) lists the roles whose
    counts are enumerated, ``tried`` (1,) the boxes so far.
    """

    gain: Floats
    holders: Ints
    low: Ints
    counted: NDArray[np.bool_]
    charge: Floats
    base: Floats
    top: Floats
    at: Ints
    branched: Ints
    tried: Ints


@njit(cache=True, nogil=True)
def room_for(groups: Any) -> Any:
    """Room for any of the groups."""
    slots, roles = 1, groups.pair.shape[1]
    for q in range(len(groups.roles)):
        slots = max(slots, groups.groups[q + 1] - groups.groups[q])
    return Room(
        np.empty((slots, roles)),
        np.zeros(roles, np.int64),
        np.zeros(roles, np.int64),
        np.zeros(roles, np.bool_),
        np.zeros(roles),
        np.zeros(slots),
        np.empty((roles, MOST_COUNTED + 1)),
        np.zeros((roles, MOST_COUNTED + 1), np.int64),
        np.zeros(roles, np.int64),
        np.zeros(1, np.int64),
    )


@njit(cache=True, nogil=True)
def _open_group(groups: Any, q: int, prices: Any, room: Any) -> Any:
    """Fills ``gain`` and ``branched`` for group q; returns its slots, how many roles are branched on, and whether
    anything is gained.

    Roles that gain nothing have a count of 0. The others are ordered by what they gain in all: the
    last needs no count, nor does any that clashes with none after it.
    """
    first, slots, count = groups.groups[q], groups.groups[q + 1] - groups.groups[q], groups.roles[q]
    room.gain[:slots, :count] = -np.inf
    room.holders[:count] = 0
    total = np.zeros(count)
    for p in range(slots):
        for m in range(groups.slots[first + p], groups.slots[first + p + 1]):
            room.gain[p, groups.role[m]] = max(room.gain[p, groups.role[m]], prices[m])
        for r in range(count):
            total[r] += max(0.0, room.gain[p, r])
            room.holders[r] += room.gain[p, r] > -np.inf
    room.low[:count] = 0
    room.counted[:count] = total == 0.0
    order = np.argsort(total)
    branched = 0
    for place in range(count):
        r = order[place]
        clashes = False
        for later in order[place + 1 :]:
            clashes |= groups.pair[q, r, later] > 0.0
        if total[r] > 0.0 and clashes:
            room.branched[branched] = r
            branched += 1
    return slots, branched, total.any()


@njit(cache=True, nogil=True)
def _box_cost(room: Any, slots: int, count: int, pair: Any) -> Any:
    """What a group costs at least within the box: exactly that where roles without count do not clash and no two
    counted ones want the same slot."""
    cost = 0.0
    for r in range(count):
        room.charge[r] = 0.0
        for other in range(count):
            room.charge[r] += pair[r, other] * room.low[other]
            if other < r and room.counted[r] and room.counted[other]:
                cost += pair[r, other] * room.low[r] * room.low[other]
    for p in range(slots):
        room.base[p] = 0.0
        for r in range(count):
            if not room.counted[r]:
                room.base[p] = max(room.base[p], room.gain[p, r] - room.charge[r])
        cost -= room.base[p]
    for r in range(count):
        if room.counted[r] and room.low[r]:
            cost -= _take(room, slots, r)
    return cost


@njit(cache=True, nogil=True)
def _take(room: Any, slots: int, r: int) -> Any:
    """What a counted role adds on its ``low`` best slots; −inf where it has not so many."""
    size = room.low[r] + 1
    top, at = room.top[r, :size], room.at[r, :size]
    top[:] = -np.inf
    for p in range(slots):
        value = room.gain[p, r] - room.base[p]
        place = size - 1
        if value <= top[place]:
            continue
        while place > 0 and top[place - 1] < value:
            top[place], at[place] = top[place - 1], at[place - 1]
            place -= 1
        top[place], at[place] = value, p
    return top[: size - 1].sum()


@njit(cache=True, nogil=True)
def _first_box(room: Any, slots: int, count: int, branched: int, pair: Any, limit: float) -> Any:
    """Opens the enumeration of boxes that cost less than ``limit``, see `_next_box`."""
    room.tried[0] = 0
    for place in range(branched):
        room.low[room.branched[place]] = 0
        room.counted[room.branched[place]] = False
    if branched == 0:
        return 0, _box_cost(room, slots, count, pair)
    return _descend(room, slots, count, branched, pair, limit, 0)


@njit(cache=True, nogil=True)
def _next_box(room: Any, slots: int, count: int, branched: int, pair: Any, limit: float, depth: int) -> Any:
    """The next box that costs less than ``limit``: how many roles its counts are of, less one, and its cost.

    Together the boxes hold every assignment that costs less; a depth of −1 ends them. After each
    count k of a role the box of all larger counts n is bounded by n·m ≥ (k + 1)·m, which soon ends
    the role; at `MOST_COUNTED`, or after `MOST_BOXES`, that box is given as it is.
    """
    while depth >= 0 and branched > 0:
        r = room.branched[depth]
        if not room.counted[r]:
            room.low[r] = 0
            depth -= 1
            continue
        room.counted[r] = False
        room.low[r] += 1
        room.tried[0] += 1
        cost = _box_cost(room, slots, count, pair)
        if cost >= limit or room.low[r] > room.holders[r]:
            room.low[r] = 0
            depth -= 1
            continue
        if room.low[r] > MOST_COUNTED or room.tried[0] > MOST_BOXES:
            return depth, cost
        found, cost = _descend(room, slots, count, branched, pair, limit, depth)
        if cost < limit:
            return found, cost
        depth = found
    return -1, np.inf


@njit(cache=True, nogil=True)
def _descend(room: Any, slots: int, count: int, branched: int, pair: Any, limit: float, depth: int) -> Any:
    """Counts the role at ``depth``, and none of those after it, as far down as that costs less than ``limit``."""
    while True:
        room.counted[room.branched[depth]] = True
        room.tried[0] += 1
        cost = _box_cost(room, slots, count, pair)
        if cost >= limit or depth == branched - 1 or room.tried[0] > MOST_BOXES:
            return depth, cost
        depth += 1


@njit(cache=True, nogil=True)
def group_cost(groups: Any, q: int, prices: Any, room: Any, known: Any) -> Any:
    """The least that group q costs in nats, or a little less; marks in ``known`` (K,) the memberships that cost it.

    Exact unless several roles want the same slots or `MOST_COUNTED` or `MOST_BOXES` is exceeded.
    """
    first, count, pair = groups.groups[q], groups.roles[q], groups.pair[q]
    known[groups.slots[first] : groups.slots[groups.groups[q + 1]]] = False
    slots, branched, gains = _open_group(groups, q, prices, room)
    if not gains:
        return 0.0
    best = 0.0
    low, counted = np.zeros(count, np.int64), np.ones(count, np.bool_)
    depth, cost = _first_box(room, slots, count, branched, pair, best)
    while depth >= 0:
        if cost < best:
            best = cost
            low[:], counted[:] = room.low[:count], room.counted[:count]
        depth, cost = _next_box(room, slots, count, branched, pair, best, depth)
    room.low[:count], room.counted[:count] = low, counted
    _box_cost(room, slots, count, pair)
    for p in range(slots):
        taken = -1
        for m in range(groups.slots[first + p], groups.slots[first + p + 1]):
            r = groups.role[m]
            if not room.counted[r] and room.base[p] > 0.0 and prices[m] - room.charge[r] == room.base[p]:
                taken = m
        for r in range(count):
            if room.counted[r] and (room.at[r, : room.low[r]] == p).any():
                taken = _best_member(groups, first + p, r, prices)
        if taken >= 0:
            known[taken] = True
    return best


@njit(cache=True, nogil=True)
def _best_member(groups: Any, p: int, role: int, prices: Any) -> Any:
    best = -1
    for m in range(groups.slots[p], groups.slots[p + 1]):
        if groups.role[m] == role and (best < 0 or prices[m] > prices[best]):
            best = m
    return best


@njit(cache=True, nogil=True)
def ascend(chains: Any, groups: Any, prices: Any, optimum: float, upper: float, steps: int) -> Any:
    """Subgradient ascent: the best bound in nats of loss, its prices, and the sentences' labels under them."""
    count, width = chains.unary.shape
    reached, charge = np.empty((count, width)), np.zeros(len(chains.start))
    from_span, from_label = np.empty((count, width), np.int64), np.empty((count, width), np.int64)
    entered = np.empty(len(chains.codec.opening))
    taken, known = np.zeros(len(chains.start), np.bool_), np.zeros(len(prices), np.bool_)
    labels, best_labels = np.zeros(count, np.int32), np.zeros(count, np.int32)
    room = room_for(groups)
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
            value += group_cost(groups, q, now, room, known)
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


@njit(cache=True, nogil=True)
def chain_losses(chains: Any, charge: Any) -> Any:
    """(M,) nats a sentence loses at least with each span, (N, L) with each outside label; ``charge`` (M,) is paid."""
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
def member_losses(groups: Any, prices: Any, limit: float) -> Any:
    """(K,) what a group's minimum grows at least if this membership is known to it; inf for more than ``limit``."""
    losses = np.full(len(prices), np.inf)
    known = np.empty(len(prices), np.bool_)
    room = room_for(groups)
    for q in range(len(groups.roles)):
        least = group_cost(groups, q, prices, room, known)
        slots, branched, _ = _open_group(groups, q, prices, room)
        count, pair = groups.roles[q], groups.pair[q]
        idle = room.counted[:count].copy()
        # A role that gains nothing is used at most once, and only where it is forced.
        for forced in range(-1, count):
            if forced >= 0 and not idle[forced]:
                continue
            if forced >= 0:
                room.low[forced] = 1
            depth, cost = _first_box(room, slots, count, branched, pair, least + limit)
            while depth >= 0:
                if cost < least + limit:
                    _lower_losses(groups, q, prices, room, forced, cost - least, losses)
                depth, cost = _next_box(room, slots, count, branched, pair, least + limit, depth)
            if forced >= 0:
                room.low[forced] = 0
    return np.maximum(losses, 0.0)


@njit(cache=True, nogil=True)
def _lower_losses(groups: Any, q: int, prices: Any, room: Any, forced: int, excess: float, losses: Any) -> None:
    """What each membership costs if it is known, within one box: its slot is taken from whatever had it."""
    first, count = groups.groups[q], groups.roles[q]
    for p in range(groups.groups[q + 1] - first):
        for m in range(groups.slots[first + p], groups.slots[first + p + 1]):
            r = groups.role[m]
            if (room.counted[r] and not room.low[r]) or (forced >= 0 and forced != r):
                continue
            value = excess + room.base[p] - prices[m]
            if not room.counted[r]:
                value += room.charge[r]
            for other in range(count):
                if not (room.counted[other] and room.low[other]):
                    continue
                size = room.low[other]
                added = room.gain[p, other] - room.base[p]
                if other == r:
                    value += max(added, room.top[r, size - 1])
                elif added >= room.top[other, size - 1]:
                    value += added - room.top[other, size]
            losses[m] = min(losses[m], value)
