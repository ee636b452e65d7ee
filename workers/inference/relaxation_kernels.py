"""Kernels of the relaxation of agreement: sentences and groups of equal words under prices, and the ascent."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.potentials import Floats
from schemas.problem import NO_KEY
from workers.inference.agreement import CONTAINED, Codec
from workers.kernel import copy_to, inner, inner_in_place, kernel, kernel_in_place

Ints = NDArray[np.int64]

MOST_COUNTED = 64
"""Slots of a role that are told apart by number; all larger numbers are bounded together."""
MOST_BOXES = 4000
"""Boxes of counts that a group is looked at in before what is left is bounded together."""
MOMENTUM = 0.9
PATIENCE = 4
SHORTER = 0.5
"""Steps without a better bound before they are made shorter, and by which factor."""


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

    ``span`` (K,) is the span, or M + t for an outside label at token t. ``slots`` bounds memberships
    by slot (P + 1,), ``groups`` bounds slots by group (Q + 1,). ``role`` indexes ``pair`` (Q, R, R);
    ``roles`` (Q,) is how many of them a group has.
    """

    span: Ints
    role: Ints
    slots: Ints
    groups: Ints
    roles: Ints
    pair: Floats


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
            if width <= state.keys.shape[2] and state.keys[g, start[i], width - 1] != NO_KEY:
                times = float(width) if state.per_token[a] else 1.0
                costs[i] += times * places[state.keys[g, start[i], width - 1]] * state.cost[a, kind[i], 0]
    return costs


@kernel
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


@kernel_in_place
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


class Lattice(NamedTuple):
    """Scratch of the sentences: ``reached`` (N, L) is the best score of a prefix that ends here with a whole span
    or an outside label, ``from_span`` and ``from_label`` (N, L) say by which span, or after which label."""

    reached: Floats
    from_span: Ints
    from_label: Ints
    entered: Floats


@kernel
def lattice_for(chains: Any) -> Any:
    """Scratch for all sentences."""
    shape = chains.unary.shape
    backward = np.empty(shape, np.int64), np.empty(shape, np.int64)
    return Lattice(np.empty(shape), *backward, np.empty(len(chains.codec.opening)))


@kernel_in_place
def solve_sentence(chains: Any, s: int, charge: Any, lattice: Any) -> Any:
    """Best score of sentence s in nats; `trace_sentence` has its labels.

    ``charge`` (M + N,) is taken off each span's score, and each outside label's at a token.
    """
    reached = lattice.reached
    outside = chains.codec.outside
    reached[chains.bounds[s] : chains.bounds[s + 1]] = -np.inf
    for t in range(chains.bounds[s], chains.bounds[s + 1]):
        for label in outside:
            value, before = _enter(chains, reached, t, label)
            reached[t, label] = value + chains.unary[t, label] - charge[len(chains.start) + t]
            lattice.from_span[t, label] = -1
            lattice.from_label[t, label] = before
        if chains.first[t] == chains.first[t + 1]:
            continue
        lattice.entered[:] = -np.inf
        for i in range(chains.first[t], chains.first[t + 1]):
            kind = chains.kind[i]
            if lattice.entered[kind] == -np.inf:
                lattice.entered[kind] = _enter(chains, reached, t, chains.codec.opening[kind])[0]
            value = lattice.entered[kind] + chains.inner[i] - charge[i]
            last = chains.end[i] - 1
            if value > reached[last, chains.last[i]]:
                reached[last, chains.last[i]] = value
                lattice.from_span[last, chains.last[i]] = i
    best = -np.inf
    for value in reached[chains.bounds[s + 1] - 1]:
        best = max(best, value)
    return best


@kernel_in_place
def trace_sentence(chains: Any, s: int, lattice: Any, taken: Any, labels: Any) -> None:
    """Marks spans and outside labels of the best labelling in ``taken`` (M + N,) and writes its labels (N,)."""
    t = chains.bounds[s + 1] - 1
    label = np.argmax(lattice.reached[t])
    while t >= chains.bounds[s]:
        i = lattice.from_span[t, label]
        if i < 0:
            taken[len(chains.start) + t] = True
            labels[t] = label
            label = lattice.from_label[t, label]
            t -= 1
            continue
        taken[i] = True
        labels[chains.start[i]] = chains.codec.opening[chains.kind[i]]
        labels[chains.start[i] + 1 : chains.end[i]] = chains.codec.inside[chains.kind[i]]
        t = chains.start[i] - 1
        label = _enter(chains, lattice.reached, chains.start[i], chains.codec.opening[chains.kind[i]])[1]


@inner_in_place
def _solve_sentences(chains: Any, charge: Any, lattice: Any, taken: Any, labels: Any, wanted: Any, scores: Any) -> None:
    """Solves the sentences ``wanted`` (S,); their ``scores`` (S,) are in nats."""
    for s in range(len(wanted)):
        if wanted[s]:
            first, last = chains.bounds[s], chains.bounds[s + 1]
            taken[chains.first[first] : chains.first[last]] = False
            taken[len(chains.start) + first : len(chains.start) + last] = False
            scores[s] = solve_sentence(chains, s, charge, lattice)
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


START, END = -1, -2
"""Depths before the first box and after the last."""

FREE, ALONE, COUNTED, BANNED, BEYOND = range(5)
"""States of a role in a box: used anywhere, or nowhere else being used what clashes with it and comes later in
``order``; used in exactly ``low`` slots; used in none; in at least ``low``, with something that clashes."""


class Room(NamedTuple):
    """Where a group is worked out, box by box: a box says how many slots have each role.

    ``gain`` (P, R) is a slot's best price of each role, −inf where it has no such span; ``holders`` (R,)
    counts the slots that have one. ``order`` (R,) lists the roles that gain anything; the first of them are
    those that are branched on, and none after these clash with each other. ``state``, ``low`` and ``banned_by`` (R,)
    are the box: a role's state, its count, and the depth at which it was banned.

    ``charge`` (R,) is what a role without count pays a slot, ``base`` (P,) what a slot gains at most
    by such roles. ``top`` (R, C + 2) is what a role adds to that on the slots where it adds most and
    which it must have, ``at`` which slots those are: the ``low`` best, and the next. ``tried`` (1,) counts boxes;
    ``best_low`` and ``best_state`` (R,) are the cheapest of them.
    """

    gain: Floats
    holders: Ints
    order: Ints
    state: Ints
    low: Ints
    banned_by: Ints
    charge: Floats
    base: Floats
    top: Floats
    at: Ints
    tried: Ints
    best_low: Ints
    best_state: Ints


class Sizes(NamedTuple):
    """Of one group: its slots, its roles, those that gain anything, and those that are branched on."""

    slots: int
    roles: int
    gaining: int
    branched: int


@kernel
def room_for(groups: Any) -> Any:
    """Room for any of the groups."""
    slots, roles = 1, groups.pair.shape[1]
    for q in range(len(groups.roles)):
        slots = max(slots, groups.groups[q + 1] - groups.groups[q])
    return Room(
        np.empty((slots, roles)),
        np.zeros(roles, np.int64),
        np.zeros(roles, np.int64),
        np.zeros(roles, np.int64),
        np.zeros(roles, np.int64),
        np.zeros(roles, np.int64),
        np.zeros(roles),
        np.zeros(slots),
        np.empty((roles, MOST_COUNTED + 2)),
        np.zeros((roles, MOST_COUNTED + 2), np.int64),
        np.zeros(1, np.int64),
        np.zeros(roles, np.int64),
        np.zeros(roles, np.int64),
    )


@inner_in_place
def _open_group(groups: Any, q: int, prices: Any, room: Any) -> Any:
    """Fills ``gain``, ``holders`` and ``order`` for group q; returns its sizes.

    Roles that gain nothing are used nowhere.
    """
    first, slots, count = groups.groups[q], groups.groups[q + 1] - groups.groups[q], groups.roles[q]
    room.gain[:slots, :count] = -np.inf
    room.holders[:count], room.low[:count], room.banned_by[:count] = 0, 0, -1
    room.state[:count] = BANNED
    for p in range(slots):
        for m in range(groups.slots[first + p], groups.slots[first + p + 1]):
            r = groups.role[m]
            room.gain[p, r] = max(room.gain[p, r], prices[m])
            if room.gain[p, r] > 0.0:
                room.state[r] = FREE
        for r in range(count):
            room.holders[r] += room.gain[p, r] > -np.inf
    gaining = 0
    for r in range(count):
        if room.state[r] == FREE:
            room.order[gaining] = r
            gaining += 1
    return Sizes(slots, count, gaining, _order_roles(groups.pair[q], room.order, gaining))


@inner_in_place
def _order_roles(pair: Any, order: Any, gaining: int) -> Any:
    """Puts roles to the front, those first that clash most with all after them, until none after them clash.

    Returns how many. Where their counts are known the others no longer hang together; types of a group's
    words clash with whatever else there is, and they are few.
    """
    for place in range(gaining):
        worst, found = 0.0, -1
        for i in range(place, gaining):
            clash = 0.0
            for j in range(place, gaining):
                clash += pair[order[i], order[j]] if j != i else 0.0
            if clash > worst:
                worst, found = clash, i
        if found < 0:
            return place
        order[place], order[found] = order[found], order[place]
    return gaining


@kernel_in_place
def _box_cost(room: Any, sizes: Any, pair: Any) -> Any:
    """What a group costs at least within the box: exactly that where roles without count do not clash and no two
    counted ones want the same slot."""
    cost = 0.0
    for r in range(sizes.roles):
        room.charge[r] = 0.0
        for other in range(sizes.roles):
            room.charge[r] += pair[r, other] * room.low[other]
            if other < r and room.state[r] == COUNTED and room.state[other] == COUNTED:
                cost += pair[r, other] * room.low[r] * room.low[other]
    for depth in range(sizes.branched):
        r = room.order[depth]
        if room.state[r] == BEYOND:
            # With n ≥ low slots and c ≥ least nats for what clashes, n·c ≥ least·n + low·c − low·least.
            least = np.inf
            for place in range(depth + 1, sizes.gaining):
                other = room.order[place]
                if room.state[other] == FREE and pair[r, other] > 0.0:
                    least = min(least, pair[r, other])
            room.charge[r] += least
            cost -= least * room.low[r]
    for p in range(sizes.slots):
        room.base[p] = 0.0
        for r in range(sizes.roles):
            if room.state[r] != COUNTED and room.state[r] != BANNED:
                room.base[p] = max(room.base[p], room.gain[p, r] - room.charge[r])
        cost -= room.base[p]
    for r in range(sizes.roles):
        if room.low[r]:
            cost -= _take(room, sizes.slots, r)
    return cost


@kernel_in_place
def _take(room: Any, slots: int, r: int) -> Any:
    """What a role adds on the ``low`` best slots that it must have; −inf where it has not so many."""
    size = room.low[r] + 1
    charge = room.charge[r] if room.state[r] == BEYOND else 0.0
    top, at = room.top[r, :size], room.at[r, :size]
    top[:] = -np.inf
    for p in range(slots):
        value = room.gain[p, r] - charge - room.base[p]
        place = size - 1
        if value <= top[place]:
            continue
        while place > 0 and top[place - 1] < value:
            top[place], at[place] = top[place - 1], at[place - 1]
            place -= 1
        top[place], at[place] = value, p
    return top[: size - 1].sum()


@kernel_in_place
def _enter_role(room: Any, sizes: Any, pair: Any, depth: int) -> None:
    """The first state of the role at ``depth``: alone, unless all that clashes with it is banned already."""
    r = room.order[depth]
    if room.state[r] == BANNED:
        return
    for place in range(depth + 1, sizes.gaining):
        other = room.order[place]
        if pair[r, other] > 0.0 and room.state[other] == FREE:
            room.state[r] = ALONE
            room.state[other] = BANNED
            room.banned_by[other] = depth


@kernel_in_place
def _next_state(room: Any, sizes: Any, depth: int) -> Any:
    """The next state of the role at ``depth``: alone; then for each k = 0, 1, … used k times, and more than k times.

    False, and the role is free again, where there is none left.
    """
    r = room.order[depth]
    if room.state[r] == ALONE:
        for place in range(depth + 1, sizes.gaining):
            other = room.order[place]
            if room.banned_by[other] == depth:
                room.banned_by[other] = -1
                room.state[other] = FREE
        room.state[r] = COUNTED
        return True
    if room.state[r] == COUNTED and room.low[r] < room.holders[r]:
        room.state[r] = BEYOND
        room.low[r] += 1
        return True
    if room.state[r] == BEYOND and room.low[r] <= MOST_COUNTED and room.tried[0] <= MOST_BOXES:
        room.state[r] = COUNTED
        return True
    _leave_role(room, r)
    return False


@kernel_in_place
def _leave_role(room: Any, r: int) -> None:
    if room.state[r] != BANNED:
        room.state[r] = FREE
        room.low[r] = 0


@kernel_in_place
def _next_box(room: Any, sizes: Any, pair: Any, limit: float, depth: int) -> Any:
    """The next box that costs less than ``limit``: the depth of its last role, and its cost.

    Together the boxes hold every assignment that costs less. The first depth is `START`, the last
    `END`. A count ends where all larger ones together cost too much; at `MOST_COUNTED`,
    or after `MOST_BOXES`, the box of all larger ones is given as it is.
    """
    entering = depth == START
    if sizes.branched == 0:
        return (0, _box_cost(room, sizes, pair)) if entering else (END, np.inf)
    if entering:
        depth = 0
        room.tried[0] = 0
    while depth >= 0:
        if entering:
            _enter_role(room, sizes, pair, depth)
        elif not _next_state(room, sizes, depth):
            depth -= 1
            continue
        entering = False
        room.tried[0] += 1
        cost = _box_cost(room, sizes, pair)
        r = room.order[depth]
        spent = room.tried[0] > MOST_BOXES
        if room.state[r] == BEYOND:
            if cost >= limit:
                _leave_role(room, r)
                depth -= 1
            elif spent or room.low[r] > MOST_COUNTED:
                return depth, cost
        elif cost < limit:
            if spent or depth == sizes.branched - 1:
                return depth, cost
            depth += 1
            entering = True
    return END, np.inf


@kernel_in_place
def group_cost(groups: Any, q: int, prices: Any, room: Any, known: Any) -> Any:
    """The least that group q costs in nats, or a little less; marks in ``known`` (K,) the memberships that cost it.

    Exact unless several roles want the same slots or `MOST_COUNTED` or `MOST_BOXES` is exceeded.
    """
    first, pair = groups.groups[q], groups.pair[q]
    known[groups.slots[first] : groups.slots[groups.groups[q + 1]]] = False
    sizes = _open_group(groups, q, prices, room)
    if not sizes.gaining:
        return 0.0
    best = 0.0
    low, state = room.best_low[: sizes.roles], room.best_state[: sizes.roles]
    copy_to(low, room.low)
    state[:] = BANNED
    depth, cost = _next_box(room, sizes, pair, best, START)
    while depth != END:
        if cost < best:
            best = cost
            copy_to(low, room.low)
            copy_to(state, room.state)
        depth, cost = _next_box(room, sizes, pair, best, depth)
    copy_to(room.low[: sizes.roles], low)
    copy_to(room.state[: sizes.roles], state)
    _box_cost(room, sizes, pair)
    for p in range(sizes.slots):
        taken = -1
        for m in range(groups.slots[first + p], groups.slots[first + p + 1]):
            r = groups.role[m]
            free = room.state[r] != COUNTED and room.state[r] != BANNED
            if free and room.base[p] > 0.0 and prices[m] - room.charge[r] == room.base[p]:
                taken = m
        for r in range(sizes.roles):
            for place in range(room.low[r]):
                if room.at[r, place] == p:
                    taken = _best_member(groups, first + p, r, prices)
        if taken >= 0:
            known[taken] = True
    return best


@kernel_in_place
def _best_member(groups: Any, p: int, role: int, prices: Any) -> Any:
    best = -1
    for m in range(groups.slots[p], groups.slots[p + 1]):
        if groups.role[m] == role and (best < 0 or prices[m] > prices[best]):
            best = m
    return best


@kernel
def ascend(chains: Any, groups: Any, prices: Any, optimum: float, upper: float, steps: int) -> Any:
    """Subgradient ascent: the best bound in nats of loss, its prices, and the sentences' labels under them.

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


@kernel
def chain_losses(chains: Any, charge: Any) -> Any:
    """(M,) nats a sentence loses at least with each span, (N, L) with each outside label; charges are paid."""
    count, width = chains.unary.shape
    lattice, remaining = lattice_for(chains), np.zeros((count, width))
    reached, opened = lattice.reached, lattice.entered
    span_loss, outside_loss = np.empty(len(chains.start)), np.full((count, width), np.inf)
    outside = chains.codec.outside
    for s in range(len(chains.bounds) - 1):
        best = solve_sentence(chains, s, charge, lattice)
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
                    rest = chains.unary[t, following] - charge[len(chains.start) + t] + remaining[t, following]
                    most = max(most, chains.transition[before, following] + rest)
                for kind in range(len(opened)):
                    opening = chains.codec.opening[kind]
                    if opened[kind] > -np.inf and not chains.codec.continues[before, opening]:
                        most = max(most, chains.transition[before, opening] + opened[kind])
                remaining[t - 1, before] = most
    return span_loss, outside_loss


@kernel
def member_losses(groups: Any, prices: Any, limit: float) -> Any:
    """(K,) what a group's minimum grows at least if this membership is known to it; inf for more than ``limit``."""
    losses = np.full(len(prices), np.inf)
    known = np.empty(len(prices), np.bool_)
    room = room_for(groups)
    for q in range(len(groups.roles)):
        least = group_cost(groups, q, prices, room, known)
        sizes = _open_group(groups, q, prices, room)
        _group_losses(groups, q, prices, room, sizes, least, limit, -1, losses)
        # A role that gains nothing is used at most once, and only where it is forced.
        for forced in range(sizes.roles):
            if room.state[forced] == BANNED:
                room.state[forced], room.low[forced] = COUNTED, 1
                _group_losses(groups, q, prices, room, sizes, least, limit, forced, losses)
                room.state[forced], room.low[forced] = BANNED, 0
    return np.maximum(losses, 0.0)


@kernel_in_place
def _group_losses(
    groups: Any, q: int, prices: Any, room: Any, sizes: Any, least: float, limit: float, forced: int, losses: Any
) -> None:
    """Lowers the losses of a group's memberships, or of those with the role ``forced``, to what each costs."""
    depth, cost = _next_box(room, sizes, groups.pair[q], least + limit, START)
    while depth != END:
        if cost < least + limit:
            _box_losses(groups, q, prices, room, sizes, forced, cost - least, losses)
        depth, cost = _next_box(room, sizes, groups.pair[q], least + limit, depth)


@kernel_in_place
def _box_losses(
    groups: Any, q: int, prices: Any, room: Any, sizes: Any, forced: int, excess: float, losses: Any
) -> None:
    """What each membership costs if it is known, within one box: its slot is taken from whatever had it."""
    first = groups.groups[q]
    for p in range(sizes.slots):
        for m in range(groups.slots[first + p], groups.slots[first + p + 1]):
            r = groups.role[m]
            if room.state[r] == BANNED or (room.state[r] == COUNTED and not room.low[r]) or forced not in (-1, r):
                continue
            value = excess + room.base[p] - prices[m]
            if room.state[r] != COUNTED:
                value += room.charge[r]
            for other in range(sizes.roles):
                size = room.low[other]
                if size == 0:
                    continue
                added = room.gain[p, other] - room.base[p]
                if room.state[other] == BEYOND:
                    added -= room.charge[other]
                if other == r:
                    value += max(added, room.top[r, size - 1])
                elif added >= room.top[other, size - 1]:
                    value += added - room.top[other, size]
            losses[m] = min(losses[m], value)
