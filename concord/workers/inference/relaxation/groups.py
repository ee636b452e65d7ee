"""Kernels of groups of equal words: the least cost of a group under prices, by branch and bound over counts.

A group has slots p (occurrences of its words). Each slot has at most one role u_p, out of those that its memberships
offer at prices θ_{p,r} ≥ 0 nats. With n_r slots of role r, and c_{rs} nats for each pair of slots with the roles r and
s,

    cost(u) = Σ_{r<s} c_{rs} · n_r · n_s − Σ_p θ_{p,u_p}.

A node of the tree is called a box. It says of each role whether it has exactly ``low`` slots, at least ``low``, none,
or any number. If every role has a count, except roles that do not conflict with each other, then the first sum is
linear in the slots without a counted role: a role r costs its ``charge`` Σ_s c_{rs} · low_s for each slot; each slot
takes the role with the greatest gain, its ``base``; and a counted role takes the ``low`` slots to whose bases it adds
most.

The bound: the cost of a box is at most that of every u in the box, because

- the base of each slot is the most that it can gain by roles without a count;
- the ``low`` slots of a counted role are chosen for it alone. If two counted roles choose the same slot, both gain
  there, which no u allows: the cost is too low then, never too high;
- if at least m slots have role r, n in all, and each costs c ≥ d nats by conflicts, then n · c ≥ d · n + m · c − m · d,
  which is (n − m) · (c − d) ≥ 0 rearranged, and is linear in n and in c.

Invariant of the tree: the children of a box cover it, and a box is left out only if it costs no less than the limit. So
the cheapest box that is met is a lower bound of the group's cost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ints
from concord.workers.compiling.kernel import copy_to, inlined, inner_in_place, kernel, kernel_in_place

MOST_EXACT_COUNT = 64
"""The largest count with a box of its own; all greater ones share a box."""

MOST_COUNT_BOXES = 4000
"""Boxes of a group after which all remaining counts of a role share one box."""

MOST_LOOKED = 2_000_000
"""Most slots visited in all boxes of a group: a group with many slots may have fewer boxes than `MOST_COUNT_BOXES`."""

FEWEST_BOXES = 40
"""Boxes that every group may have, however many slots it has."""

START, END = -1, -2
"""Values of a depth before the first box (START) and after the last one (END)."""

FREE, ALONE, EXACTLY, BANNED, BEYOND = range(5)
"""States of a role in a box.

FREE: any number of slots may have this role; it is not branched on, or not yet.
ALONE: any number of slots may have this role, but none has a role that conflicts with it and comes later in ``order``.
EXACTLY: exactly ``low`` slots have this role.
BANNED: no slot has this role.
BEYOND: at least ``low`` slots have this role, and at least one has a role that conflicts with it and comes later.
"""


class PricedGroups(NamedTuple):
    """Groups of equal words: K memberships, ordered by group, slot and role; P slots; Q groups of up to R roles.

    - ``span`` (K,): item of each membership, out of M spans: the span's index, or M + t for an outside label at token
      t.
    - ``role`` (K,): role of each membership, an index into ``pair``.
    - ``slots`` (P + 1,): the memberships of slot p are ``slots[p]:slots[p + 1]``.
    - ``groups`` (Q + 1,): the slots of group q are ``groups[q]:groups[q + 1]``.
    - ``roles`` (Q,): number of roles of each group.
    - ``pair`` (Q, R, R): nats of each pair of slots, by their roles.
    """

    span: Ints
    role: Ints
    slots: Ints
    groups: Ints
    roles: Ints
    pair: Floats


class Workspace(NamedTuple):
    """Arrays for the branch and bound of one group with P slots and R roles, used again for the next group.

    What does not depend on prices, for all Q groups and K memberships:

    - ``place`` (K,): the slot of each membership in its group.
    - ``holders`` (Q, R): number of slots that have a membership of each role.

    The group. Slots are the last axis, so that loops over them run in vector instructions:

    - ``gain`` (R, P): best price of a slot's memberships of each role, in nats; −inf if it has none.
    - ``gains`` (R,): mask of the roles with a price above 0.
    - ``order`` (R,): these roles; first those to branch on, one for each depth of the tree.
    - ``active`` (R,): the same roles, and one that is forced, rising; ``actives`` (1,) says how many.

    The box:

    - ``state`` (R,): state of each role, FREE to BEYOND.
    - ``low`` (R,): count of each role.
    - ``banned_by`` (R,): depth of the ALONE role that banned each role; −1 if none did.
    - ``counted`` (R,): the roles with a count above 0, rising; ``counts`` (1,) says how many.
    - ``charge`` (R,): cost of one more slot of each role, in nats.
    - ``base`` (P,): the most that each slot gains by roles without a count, in nats.
    - ``top`` (R, C + 2): the ``low`` + 1 greatest amounts that each role adds to a slot's base, falling, in nats.
    - ``at`` (R, C + 2): the slots of these amounts; of equal amounts the first slot comes first.
    - ``tried`` (1,): number of boxes of the group so far.
    - ``looked`` (1,): slots visited in all groups so far.
    - ``best_low``, ``best_state`` (R,): counts and states of the cheapest box met.
    - ``choice`` (P,): scratch.

    The last roles of ``order`` do not conflict with each other. C is `MOST_EXACT_COUNT`.
    """

    place: Ints
    holders: Ints
    gain: Floats
    gains: NDArray[np.bool_]
    order: Ints
    active: Ints
    actives: Ints
    state: Ints
    low: Ints
    banned_by: Ints
    counted: Ints
    counts: Ints
    charge: Floats
    base: Floats
    top: Floats
    at: Ints
    tried: Ints
    looked: Ints
    best_low: Ints
    best_state: Ints
    choice: Ints


class Sizes(NamedTuple):
    """One group's number, and its sizes.

    - ``group``: index of the group.
    - ``slots``: number of slots.
    - ``roles``: number of roles.
    - ``gaining``: number of roles with a price above 0.
    - ``branched``: number of roles to branch on.
    - ``boxes``: largest number of boxes.
    """

    group: int
    slots: int
    roles: int
    gaining: int
    branched: int
    boxes: int


@kernel
def workspace_for(groups: PricedGroups) -> Workspace:
    """A workspace that is large enough for each of ``groups``."""
    slots, roles, count = 1, groups.pair.shape[1], len(groups.roles)
    for q in range(count):
        slots = max(slots, groups.groups[q + 1] - groups.groups[q])
    place, holders = np.empty(len(groups.span), np.int64), np.zeros((count, roles), np.int64)
    for q in range(count):
        first = groups.groups[q]
        for p in range(groups.groups[q + 1] - first):
            before = -1
            for m in range(groups.slots[first + p], groups.slots[first + p + 1]):
                r = groups.role[m]
                place[m] = p
                holders[q, r] += r != before
                before = r
    return Workspace(
        place,
        holders,
        np.empty((roles, slots)),
        np.zeros(roles, np.bool_),
        np.zeros(roles, np.int64),
        np.zeros(roles, np.int64),
        np.zeros(1, np.int64),
        np.zeros(roles, np.int64),
        np.zeros(roles, np.int64),
        np.zeros(roles, np.int64),
        np.zeros(roles, np.int64),
        np.zeros(1, np.int64),
        np.zeros(roles),
        np.zeros(slots),
        np.empty((roles, MOST_EXACT_COUNT + 2)),
        np.zeros((roles, MOST_EXACT_COUNT + 2), np.int64),
        np.zeros(1, np.int64),
        np.zeros(1, np.int64),
        np.zeros(roles, np.int64),
        np.zeros(roles, np.int64),
        np.zeros(slots, np.int64),
    )


@kernel_in_place
def group_cost(groups: PricedGroups, q: int, prices: Floats, workspace: Workspace, known: NDArray[np.bool_]) -> float:
    """min_u cost(u) of group q in nats, or a lower bound of it; marks in ``known`` (K,) the memberships that u takes.

    It is exact unless several counted roles choose the same slot, or `MOST_EXACT_COUNT`, `MOST_COUNT_BOXES` or
    `MOST_LOOKED` ends the branching. ``prices`` (K,) are θ in nats.
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
    if best < 0.0:
        copy_to(workspace.low[: sizes.roles], low)
        copy_to(workspace.state[: sizes.roles], state)
        _box_cost(workspace, sizes, pair)
        _mark_taken(groups, q, prices, workspace, sizes, known)
    return best


@inner_in_place
def _mark_taken(
    groups: PricedGroups, q: int, prices: Floats, workspace: Workspace, sizes: Sizes, mask: NDArray[np.bool_]
) -> None:
    """Marks in ``mask`` (K,) the memberships of group q that the slots take in the present box, one a slot at most."""
    first, choice, state = groups.groups[q], workspace.choice, workspace.state
    choice[: sizes.slots] = -1
    for i in range(workspace.counts[0]):
        r = workspace.counted[i]
        for place in range(workspace.low[r]):
            choice[workspace.at[r, place]] = r
    for p in range(sizes.slots):
        taken, base = -1, workspace.base[p]
        if choice[p] >= 0:
            taken = _best_member(groups, first + p, choice[p], prices)
        elif base > 0.0:
            for m in range(groups.slots[first + p], groups.slots[first + p + 1]):
                r = groups.role[m]
                free = state[r] != EXACTLY and state[r] != BANNED
                if free and prices[m] - workspace.charge[r] == base:
                    taken = m
        if taken >= 0:
            mask[taken] = True


@kernel_in_place
def _best_member(groups: PricedGroups, p: int, role: int, prices: Floats) -> int:
    best = -1
    for m in range(groups.slots[p], groups.slots[p + 1]):
        if groups.role[m] == role and (best < 0 or prices[m] > prices[best]):
            best = m
    return best


@inner_in_place
def _open_group(groups: PricedGroups, q: int, prices: Floats, workspace: Workspace) -> Sizes:
    """Fills ``gain`` and ``order`` for group q; returns its sizes.

    Roles without a price above 0 become BANNED: no slot gains by them.
    """
    first, slots, count = groups.groups[q], groups.groups[q + 1] - groups.groups[q], groups.roles[q]
    gain, gains, place = workspace.gain, workspace.gains, workspace.place
    for r in range(count):
        workspace.low[r], workspace.banned_by[r], workspace.state[r] = 0, -1, BANNED
        gains[r] = False
        row = gain[r]
        for p in range(slots):
            row[p] = -np.inf
    for m in range(groups.slots[first], groups.slots[first + slots]):
        price, r, p = prices[m], groups.role[m], place[m]
        gain[r, p] = price if price > gain[r, p] else gain[r, p]  # noqa: FURB136 — max() would ask for NaN, too
        gains[r] |= price > 0.0
    gaining = 0
    for r in range(count):
        if gains[r]:
            workspace.state[r] = FREE
            workspace.order[gaining], workspace.active[gaining] = r, r
            gaining += 1
    workspace.actives[0] = gaining
    boxes = min(MOST_COUNT_BOXES, max(FEWEST_BOXES, MOST_LOOKED // slots))
    workspace.looked[0] += slots
    return Sizes(q, slots, count, gaining, _order_roles(groups.pair[q], workspace.order, gaining), boxes)


@inner_in_place
def _order_roles(pair: Floats, order: Ints, gaining: int) -> int:
    """Orders roles by their conflicts with all later roles, the greatest sum first; returns how many conflict.

    Once these roles have counts, the others do not conflict with each other, so their slots are independent. These
    roles are few: the types of spans of a group's words. They conflict with the types of the longer spans around them,
    which are many but do not conflict with each other.
    """
    for place in range(gaining):
        worst, found = 0.0, -1
        for i in range(place, gaining):
            conflict = 0.0
            for j in range(place, gaining):
                conflict += pair[order[i], order[j]] if j != i else 0.0
            if conflict > worst:
                worst, found = conflict, i
        if found < 0:
            return place
        order[place], order[found] = order[found], order[place]
    return gaining


@inlined
def _box_cost(workspace: Workspace, sizes: Sizes, pair: Floats) -> float:
    """Lower bound in nats of a group's cost within the box, see the module; fills ``charge``, ``base`` and ``top``.

    It is exact if roles without a count do not conflict and no two counted roles choose the same slot.
    """
    cost, counts, active, low, state = 0.0, 0, workspace.actives[0], workspace.low, workspace.state
    for i in range(active):
        r = workspace.active[i]
        if low[r]:
            workspace.counted[counts] = r
            counts += 1
    workspace.counts[0] = counts
    for i in range(active):
        r, charge = workspace.active[i], 0.0
        for j in range(counts):
            other = workspace.counted[j]
            charge += pair[r, other] * low[other]
            if other < r and state[r] == EXACTLY and state[other] == EXACTLY:
                cost += pair[r, other] * low[r] * low[other]
        workspace.charge[r] = charge
    for depth in range(sizes.branched):
        r = workspace.order[depth]
        if workspace.state[r] == BEYOND:
            # n ≥ low slots at c ≥ least nats of conflicts each: n·c ≥ least·n + low·c − low·least.
            least = np.inf
            for place in range(depth + 1, sizes.gaining):
                other = workspace.order[place]
                if workspace.state[other] == FREE and pair[r, other] > 0.0:
                    least = min(least, pair[r, other])
            workspace.charge[r] += least
            cost -= least * workspace.low[r]
    base = workspace.base
    for p in range(sizes.slots):
        base[p] = 0.0
    for i in range(active):
        r = workspace.active[i]
        if state[r] != EXACTLY and state[r] != BANNED:
            gain, charge = workspace.gain[r], workspace.charge[r]
            for p in range(sizes.slots):
                value = gain[p] - charge
                # max() would ask for NaN too, at twice the time.
                base[p] = value if value > base[p] else base[p]  # noqa: FURB136
    for p in range(sizes.slots):
        cost -= base[p]
    for j in range(counts):
        cost -= _take(workspace, sizes.slots, workspace.counted[j])
    return cost


@inlined
def _take(workspace: Workspace, slots: int, r: int) -> float:
    """Sum of what role r adds to the bases of its ``low`` best slots, in nats; −inf if it has fewer slots."""
    low, charge = workspace.low[r], workspace.charge[r] if workspace.state[r] == BEYOND else 0.0
    top, at, gain, base = workspace.top[r], workspace.at[r], workspace.gain[r], workspace.base
    for place in range(low + 1):
        top[place] = -np.inf
    least = -np.inf
    for p in range(slots):
        value = gain[p] - charge - base[p]
        if value <= least:
            continue
        place = low
        while place > 0 and top[place - 1] < value:
            top[place], at[place] = top[place - 1], at[place - 1]
            place -= 1
        top[place], at[place] = value, p
        least = top[low]
    total = 0.0
    for place in range(low):
        total += top[place]
    return total


@kernel_in_place
def _next_box(workspace: Workspace, sizes: Sizes, pair: Floats, limit: float, depth: int) -> tuple[int, float]:
    """The next leaf of the tree that costs less than ``limit`` nats: the depth of its last role, and its cost.

    ``depth`` is the depth that the last call returned, or `START`; `END` is returned after the last leaf. Together the
    leaves cover every assignment that costs less than the limit. The counts of a role are tried in turn. Before each
    count comes a box (BEYOND) of this count and all greater ones; if it costs ``limit`` or more, the counts end there.
    That box is a leaf itself after `MOST_EXACT_COUNT`, or when the group has had all its boxes.
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
            elif spent or workspace.low[r] > MOST_EXACT_COUNT:
                return depth, cost
        elif cost < limit:
            if spent or depth == sizes.branched - 1:
                return depth, cost
            depth += 1
            entering = True
    return END, np.inf


@inlined
def _enter_role(workspace: Workspace, sizes: Sizes, pair: Floats, depth: int) -> None:
    """Makes the role at ``depth`` ALONE and bans all later roles that conflict with it.

    If the role is banned already, it stays BANNED; if nothing conflicts with it, it stays FREE.
    """
    r = workspace.order[depth]
    if workspace.state[r] == BANNED:
        return
    for place in range(depth + 1, sizes.gaining):
        other = workspace.order[place]
        if pair[r, other] > 0.0 and workspace.state[other] == FREE:
            workspace.state[r] = ALONE
            workspace.state[other] = BANNED
            workspace.banned_by[other] = depth


@inlined
def _next_state(workspace: Workspace, sizes: Sizes, depth: int) -> bool:
    """Moves the role at ``depth`` to its next state; returns False, with the role FREE again, if there is none.

    The order is ALONE, EXACTLY with 0, BEYOND from 1, EXACTLY with 1, BEYOND from 2, …
    """
    r = workspace.order[depth]
    if workspace.state[r] == ALONE:
        for place in range(depth + 1, sizes.gaining):
            other = workspace.order[place]
            if workspace.banned_by[other] == depth:
                workspace.banned_by[other] = -1
                workspace.state[other] = FREE
        workspace.state[r] = EXACTLY
        return True
    if workspace.state[r] == EXACTLY and workspace.low[r] < workspace.holders[sizes.group, r]:
        workspace.state[r] = BEYOND
        workspace.low[r] += 1
        return True
    if workspace.state[r] == BEYOND and workspace.low[r] <= MOST_EXACT_COUNT and workspace.tried[0] <= sizes.boxes:
        workspace.state[r] = EXACTLY
        return True
    _leave_role(workspace, r)
    return False


@inlined
def _leave_role(workspace: Workspace, r: int) -> None:
    if workspace.state[r] != BANNED:
        workspace.state[r] = FREE
        workspace.low[r] = 0


@kernel
def member_losses(groups: PricedGroups, prices: Floats, workspace: Workspace, limit: float) -> Floats:
    """(K,) lower bound of min_u {cost(u) : u takes this membership} − min_u cost(u), in nats; inf if above ``limit``.

    It is the least over all boxes that cost less than the limit: a box's cost, and the change if the slot takes the
    membership instead of its choice there.
    """
    losses = np.full(len(prices), np.inf)
    known = np.empty(len(prices), np.bool_)
    for q in range(len(groups.roles)):
        least = group_cost(groups, q, prices, workspace, known)
        sizes = _open_group(groups, q, prices, workspace)
        _group_losses(groups, q, prices, workspace, sizes, (least, least + limit), -1, losses)
        # A role without a price above 0 has at most one slot, and only if one of its memberships is forced.
        for forced in range(sizes.roles):
            if workspace.state[forced] == BANNED:
                workspace.state[forced], workspace.low[forced] = EXACTLY, 1
                _activate(workspace, forced, sizes.roles)
                _group_losses(groups, q, prices, workspace, sizes, (least, least + limit), forced, losses)
                workspace.state[forced], workspace.low[forced] = BANNED, 0
    least_zero: Floats = np.maximum(losses, 0.0)
    return least_zero


@inner_in_place
def _activate(workspace: Workspace, forced: int, roles: int) -> None:
    """Makes active, of the first ``roles`` ones, those with a price above 0 and ``forced``."""
    count = 0
    for r in range(roles):
        if r == forced or workspace.gains[r]:
            workspace.active[count] = r
            count += 1
    workspace.actives[0] = count


@kernel_in_place
def _group_losses(
    groups: PricedGroups,
    q: int,
    prices: Floats,
    workspace: Workspace,
    sizes: Sizes,
    costs: tuple[float, float],
    forced: int,
    losses: Floats,
) -> None:
    """Lowers ``losses`` (K,) of a group's memberships, box by box.

    - ``costs``: cost of the best box, and the cost from which on boxes are left out.
    - ``forced``: the only role whose memberships are lowered; −1 for all.
    """
    least, most = costs
    depth, cost = _next_box(workspace, sizes, groups.pair[q], most, START)
    while depth != END:
        if cost < most:
            _box_losses(groups, q, prices, workspace, sizes, forced, cost - least, losses)
        depth, cost = _next_box(workspace, sizes, groups.pair[q], most, depth)


@kernel_in_place
def _box_losses(
    groups: PricedGroups,
    q: int,
    prices: Floats,
    workspace: Workspace,
    sizes: Sizes,
    forced: int,
    excess: float,
    losses: Floats,
) -> None:
    """Lowers ``losses`` (K,) to the cost of each membership in one box, where it displaces the choice of its slot."""
    first = groups.groups[q]
    for p in range(sizes.slots):
        for m in range(groups.slots[first + p], groups.slots[first + p + 1]):
            r = groups.role[m]
            if (
                workspace.state[r] == BANNED
                or (workspace.state[r] == EXACTLY and not workspace.low[r])
                or forced not in (-1, r)
            ):
                continue
            value = excess + workspace.base[p] - prices[m]
            if workspace.state[r] != EXACTLY:
                value += workspace.charge[r]
            for i in range(workspace.counts[0]):
                other = workspace.counted[i]
                size = workspace.low[other]
                added = workspace.gain[other, p] - workspace.base[p]
                if workspace.state[other] == BEYOND:
                    added -= workspace.charge[other]
                if other == r:
                    value += max(added, workspace.top[r, size - 1])
                elif added >= workspace.top[other, size - 1]:
                    value += added - workspace.top[other, size]
            losses[m] = min(losses[m], value)
