"""Kernels of groups of equal words: the least a group costs under prices, and what each membership adds.

A group is worked out over how many of its slots have each role, box of counts by box.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from schemas.potentials import Floats, Ints
from workers.compiling.kernel import copy_to, inner_in_place, kernel, kernel_in_place

MOST_COUNTED = 64
"""Slots of a role that are told apart by number; all larger numbers are bounded together."""

MOST_BOXES = 4000
"""Boxes of counts that a group is looked at in before what is left is bounded together."""

MOST_LOOKED = 2_000_000
"""Slots of these boxes, which make them fewer in a group of many slots; `FEWEST_BOXES` are looked at anyway."""

FEWEST_BOXES = 40

START, END = -1, -2
"""Depths before the first box and after the last."""

FREE, ALONE, COUNTED, BANNED, BEYOND = range(5)
"""States of a role in a box: used anywhere, or nowhere else being used what clashes with it and comes later in
``order``; used in exactly ``low`` slots; used in none; in at least ``low``, with something that clashes."""


class PricedGroups(NamedTuple):
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


class Workspace(NamedTuple):
    """Where a group is worked out, box by box: a box says how many slots have each role.

    ``gain`` (P, R) is a slot's best price of each role, −inf where it has no such span; ``holders`` (R,)
    counts the slots that have one. ``order`` (R,) lists the roles that gain anything; the first of them are
    those that are branched on, and none after these clash with each other. ``state``, ``low`` and ``banned_by`` (R,)
    are the box: a role's state, its count, and the depth at which it was banned.

    ``charge`` (R,) is what a role without count pays a slot, ``base`` (P,) what a slot gains at most
    by such roles. ``top`` (R, C + 2) is what a role adds to that on the slots where it adds most and
    which it must have, ``at`` which slots those are: the ``low`` best, and the next. ``tried`` (1,) counts boxes,
    ``looked`` (1,) the slots of all that were ever looked at; ``best_low`` and ``best_state`` (R,) are the cheapest.
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
    looked: Ints
    best_low: Ints
    best_state: Ints


class Sizes(NamedTuple):
    """Of one group: its slots, its roles, those that gain anything, those that are branched on, and how many boxes."""

    slots: int
    roles: int
    gaining: int
    branched: int
    boxes: int


@kernel
def workspace_for(groups: Any) -> Any:
    """Workspace for any of the groups."""
    slots, roles = 1, groups.pair.shape[1]
    for q in range(len(groups.roles)):
        slots = max(slots, groups.groups[q + 1] - groups.groups[q])
    return Workspace(
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
        np.zeros(1, np.int64),
        np.zeros(roles, np.int64),
        np.zeros(roles, np.int64),
    )


@kernel_in_place
def group_cost(groups: Any, q: int, prices: Any, workspace: Any, known: Any) -> Any:
    """The least that group q costs in nats, or a little less; marks in ``known`` (K,) the memberships that cost it.

    Exact unless several roles want the same slots or `MOST_COUNTED`, `MOST_BOXES` or `MOST_LOOKED` is exceeded.
    """
    first, pair = groups.groups[q], groups.pair[q]
    known[groups.slots[first] : groups.slots[groups.groups[q + 1]]] = False
    sizes = _open_group(groups, q, prices, workspace)
    if not sizes.gaining:
        return 0.0
    best = 0.0
    low, state = workspace.best_low[: sizes.roles], workspace.best_state[: sizes.roles]
    copy_to(low, workspace.low)
    state[:] = BANNED
    depth, cost = _next_box(workspace, sizes, pair, best, START)
    while depth != END:
        if cost < best:
            best = cost
            copy_to(low, workspace.low)
            copy_to(state, workspace.state)
        depth, cost = _next_box(workspace, sizes, pair, best, depth)
    copy_to(workspace.low[: sizes.roles], low)
    copy_to(workspace.state[: sizes.roles], state)
    _box_cost(workspace, sizes, pair)
    for p in range(sizes.slots):
        taken = -1
        for m in range(groups.slots[first + p], groups.slots[first + p + 1]):
            r = groups.role[m]
            free = workspace.state[r] != COUNTED and workspace.state[r] != BANNED
            if free and workspace.base[p] > 0.0 and prices[m] - workspace.charge[r] == workspace.base[p]:
                taken = m
        for r in range(sizes.roles):
            for place in range(workspace.low[r]):
                if workspace.at[r, place] == p:
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


@inner_in_place
def _open_group(groups: Any, q: int, prices: Any, workspace: Any) -> Any:
    """Fills ``gain``, ``holders`` and ``order`` for group q; returns its sizes.

    Roles that gain nothing are used nowhere.
    """
    first, slots, count = groups.groups[q], groups.groups[q + 1] - groups.groups[q], groups.roles[q]
    workspace.gain[:slots, :count] = -np.inf
    workspace.holders[:count], workspace.low[:count], workspace.banned_by[:count] = 0, 0, -1
    workspace.state[:count] = BANNED
    for p in range(slots):
        for m in range(groups.slots[first + p], groups.slots[first + p + 1]):
            r = groups.role[m]
            workspace.gain[p, r] = max(workspace.gain[p, r], prices[m])
            if workspace.gain[p, r] > 0.0:
                workspace.state[r] = FREE
        for r in range(count):
            workspace.holders[r] += workspace.gain[p, r] > -np.inf
    gaining = 0
    for r in range(count):
        if workspace.state[r] == FREE:
            workspace.order[gaining] = r
            gaining += 1
    boxes = min(MOST_BOXES, max(FEWEST_BOXES, MOST_LOOKED // slots))
    workspace.looked[0] += slots
    return Sizes(slots, count, gaining, _order_roles(groups.pair[q], workspace.order, gaining), boxes)


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
def _box_cost(workspace: Any, sizes: Any, pair: Any) -> Any:
    """What a group costs at least within the box: exactly that where roles without count do not clash and no two
    counted ones want the same slot."""
    cost = 0.0
    for r in range(sizes.roles):
        workspace.charge[r] = 0.0
        for other in range(sizes.roles):
            workspace.charge[r] += pair[r, other] * workspace.low[other]
            if other < r and workspace.state[r] == COUNTED and workspace.state[other] == COUNTED:
                cost += pair[r, other] * workspace.low[r] * workspace.low[other]
    for depth in range(sizes.branched):
        r = workspace.order[depth]
        if workspace.state[r] == BEYOND:
            # With n ≥ low slots and c ≥ least nats for what clashes, n·c ≥ least·n + low·c − low·least.
            least = np.inf
            for place in range(depth + 1, sizes.gaining):
                other = workspace.order[place]
                if workspace.state[other] == FREE and pair[r, other] > 0.0:
                    least = min(least, pair[r, other])
            workspace.charge[r] += least
            cost -= least * workspace.low[r]
    for p in range(sizes.slots):
        workspace.base[p] = 0.0
        for r in range(sizes.roles):
            if workspace.state[r] != COUNTED and workspace.state[r] != BANNED:
                workspace.base[p] = max(workspace.base[p], workspace.gain[p, r] - workspace.charge[r])
        cost -= workspace.base[p]
    for r in range(sizes.roles):
        if workspace.low[r]:
            cost -= _take(workspace, sizes.slots, r)
    return cost


@kernel_in_place
def _take(workspace: Any, slots: int, r: int) -> Any:
    """What a role adds on the ``low`` best slots that it must have; −inf where it has not so many."""
    size = workspace.low[r] + 1
    charge = workspace.charge[r] if workspace.state[r] == BEYOND else 0.0
    top, at = workspace.top[r, :size], workspace.at[r, :size]
    top[:] = -np.inf
    for p in range(slots):
        value = workspace.gain[p, r] - charge - workspace.base[p]
        place = size - 1
        if value <= top[place]:
            continue
        while place > 0 and top[place - 1] < value:
            top[place], at[place] = top[place - 1], at[place - 1]
            place -= 1
        top[place], at[place] = value, p
    return top[: size - 1].sum()


@kernel_in_place
def _next_box(workspace: Any, sizes: Any, pair: Any, limit: float, depth: int) -> Any:
    """The next box that costs less than ``limit``: the depth of its last role, and its cost.

    Together the boxes hold every assignment that costs less. The first depth is `START`, the last
    `END`. A count ends where all larger ones together cost too much; at `MOST_COUNTED`,
    or after as many boxes as the group may have, the box of all larger ones is given as it is.
    """
    entering = depth == START
    if sizes.branched == 0:
        return (0, _box_cost(workspace, sizes, pair)) if entering else (END, np.inf)
    if entering:
        depth = 0
        workspace.tried[0] = 0
    while depth >= 0:
        if entering:
            _enter_role(workspace, sizes, pair, depth)
        elif not _next_state(workspace, sizes, depth):
            depth -= 1
            continue
        entering = False
        workspace.tried[0] += 1
        workspace.looked[0] += sizes.slots
        cost = _box_cost(workspace, sizes, pair)
        r = workspace.order[depth]
        spent = workspace.tried[0] > sizes.boxes
        if workspace.state[r] == BEYOND:
            if cost >= limit:
                _leave_role(workspace, r)
                depth -= 1
            elif spent or workspace.low[r] > MOST_COUNTED:
                return depth, cost
        elif cost < limit:
            if spent or depth == sizes.branched - 1:
                return depth, cost
            depth += 1
            entering = True
    return END, np.inf


@kernel_in_place
def _enter_role(workspace: Any, sizes: Any, pair: Any, depth: int) -> None:
    """The first state of the role at ``depth``: alone, unless all that clashes with it is banned already."""
    r = workspace.order[depth]
    if workspace.state[r] == BANNED:
        return
    for place in range(depth + 1, sizes.gaining):
        other = workspace.order[place]
        if pair[r, other] > 0.0 and workspace.state[other] == FREE:
            workspace.state[r] = ALONE
            workspace.state[other] = BANNED
            workspace.banned_by[other] = depth


@kernel_in_place
def _next_state(workspace: Any, sizes: Any, depth: int) -> Any:
    """The next state of the role at ``depth``: alone; then for each k = 0, 1, … used k times, and more than k times.

    False, and the role is free again, where there is none left.
    """
    r = workspace.order[depth]
    if workspace.state[r] == ALONE:
        for place in range(depth + 1, sizes.gaining):
            other = workspace.order[place]
            if workspace.banned_by[other] == depth:
                workspace.banned_by[other] = -1
                workspace.state[other] = FREE
        workspace.state[r] = COUNTED
        return True
    if workspace.state[r] == COUNTED and workspace.low[r] < workspace.holders[r]:
        workspace.state[r] = BEYOND
        workspace.low[r] += 1
        return True
    if workspace.state[r] == BEYOND and workspace.low[r] <= MOST_COUNTED and workspace.tried[0] <= sizes.boxes:
        workspace.state[r] = COUNTED
        return True
    _leave_role(workspace, r)
    return False


@kernel_in_place
def _leave_role(workspace: Any, r: int) -> None:
    if workspace.state[r] != BANNED:
        workspace.state[r] = FREE
        workspace.low[r] = 0


@kernel
def member_losses(groups: Any, prices: Any, workspace: Any, limit: float) -> Any:
    """(K,) what a group's minimum grows at least if this membership is known to it; inf for more than ``limit``."""
    losses = np.full(len(prices), np.inf)
    known = np.empty(len(prices), np.bool_)
    for q in range(len(groups.roles)):
        least = group_cost(groups, q, prices, workspace, known)
        sizes = _open_group(groups, q, prices, workspace)
        _group_losses(groups, q, prices, workspace, sizes, least, limit, -1, losses)
        # A role that gains nothing is used at most once, and only where it is forced.
        for forced in range(sizes.roles):
            if workspace.state[forced] == BANNED:
                workspace.state[forced], workspace.low[forced] = COUNTED, 1
                _group_losses(groups, q, prices, workspace, sizes, least, limit, forced, losses)
                workspace.state[forced], workspace.low[forced] = BANNED, 0
    return np.maximum(losses, 0.0)


@kernel_in_place
def _group_losses(
    groups: Any, q: int, prices: Any, workspace: Any, sizes: Any, least: float, limit: float, forced: int, losses: Any
) -> None:
    """Lowers the losses of a group's memberships, or of those with the role ``forced``, to what each costs."""
    depth, cost = _next_box(workspace, sizes, groups.pair[q], least + limit, START)
    while depth != END:
        if cost < least + limit:
            _box_losses(groups, q, prices, workspace, sizes, forced, cost - least, losses)
        depth, cost = _next_box(workspace, sizes, groups.pair[q], least + limit, depth)


@kernel_in_place
def _box_losses(
    groups: Any, q: int, prices: Any, workspace: Any, sizes: Any, forced: int, excess: float, losses: Any
) -> None:
    """What each membership costs if it is known, within one box: its slot is taken from whatever had it."""
    first = groups.groups[q]
    for p in range(sizes.slots):
        for m in range(groups.slots[first + p], groups.slots[first + p + 1]):
            r = groups.role[m]
            if (
                workspace.state[r] == BANNED
                or (workspace.state[r] == COUNTED and not workspace.low[r])
                or forced not in (-1, r)
            ):
                continue
            value = excess + workspace.base[p] - prices[m]
            if workspace.state[r] != COUNTED:
                value += workspace.charge[r]
            for other in range(sizes.roles):
                size = workspace.low[other]
                if size == 0:
                    continue
                added = workspace.gain[p, other] - workspace.base[p]
                if workspace.state[other] == BEYOND:
                    added -= workspace.charge[other]
                if other == r:
                    value += max(added, workspace.top[r, size - 1])
                elif added >= workspace.top[other, size - 1]:
                    value += added - workspace.top[other, size]
            losses[m] = min(losses[m], value)
