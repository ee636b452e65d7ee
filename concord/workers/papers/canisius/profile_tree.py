"""Training instances as a tree of profiles in flat form, most of which no query looks at; see `.nearest`.

Instances are sorted by their profiles, one feature after another, so that those with a common beginning follow each
other. The distance to a query adds up feature by feature. Where a sum exceeds the distances that are wanted, all
instances with this beginning are skipped.

A query first adds up the sums of all beginnings of a few features, the heads. It looks at the instances of the nearest
head first, so that from then on little else is near enough.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ids, Ints
from concord.workers.compiling.kernel import inner, inner_in_place, kernel
from concord.workers.papers.canisius.ballots import Ballot, enter, forget, keep, leave_out_far, limit
from concord.workers.papers.canisius.profiles import FARTHEST, ClassShares, difference

SAMPLED_INSTANCES = 10_000
"""Largest number of instances by which features are ordered."""
COMPARED = 50
"""Number of these that all of them are compared to."""
LEVEL_COST = 0.5
"""Cost of a level that adds no branches, where twice as many branches cost 1."""
MOST_HEADS = 2_000
"""Largest number of heads."""
NARROW = 1 << 16
"""Number of profiles that fit into two bytes: rows half as long are faster by a fifth."""

ProfileRows = NDArray[np.uint16] | Ids


class ProfileTree(NamedTuple):
    """M instances as R distinct rows of L profiles, sorted.

    - ``order`` (L,): the feature of each level.
    - ``profile`` (R, L): profile of each row at each level.
    - ``shared`` (R + 1,): number of levels, from the first, that a row has in common with the last one; −1 at the end.
    - ``after`` (R,): the next row that has fewer in common with the one before it than this row; R for none.
    - ``depth``: number of levels of the heads.
    - ``heads`` (H + 1,): bounds of the rows of each head.
    - ``start`` (R + 1,), ``classes`` (M,): classes of the instances of row r are classes[start[r]:start[r + 1]].
    """

    order: Ints
    profile: ProfileRows
    shared: Ids
    after: Ids
    depth: int
    heads: Ids
    start: Ids
    classes: Ids

    @classmethod
    def of(cls, codes: Ids, classes: Ids, order: Ints) -> ProfileTree:
        """Tree of instances with the profiles (F, M) and the classes (M,), and with the features in this order."""
        place = np.lexsort(codes[order[::-1]])
        rows: ProfileRows = np.ascontiguousarray(codes[order][:, place].T)
        if codes.max(initial=0) < NARROW:
            rows = rows.astype(np.uint16)
        differ = rows[1:] != rows[:-1]
        alike = np.where(differ.any(axis=1), differ.argmax(axis=1), len(order))
        start = np.concatenate([[0], np.flatnonzero(alike < len(order)) + 1, [len(rows)]]).astype(np.int32)
        shared = np.concatenate([[0], alike[start[1:-1] - 1], [-1]]).astype(np.int32)
        heads = 1 + np.cumsum(np.bincount(shared[1:-1], minlength=len(order)))
        depth = int(np.searchsorted(heads, MOST_HEADS, side="right"))
        bounds = np.concatenate([[0], np.flatnonzero(shared[1:-1] < depth) + 1, [len(shared) - 1]]).astype(np.int32)
        return cls(order, rows[start[:-1]], shared, _after(shared), depth, bounds, start, classes[place])


@kernel
def _after(shared: Ids) -> Ids:
    """The place of the next smaller entry, for each entry but the last; the last place where none is smaller."""
    after = np.empty(len(shared) - 1, np.int32)
    for r in range(len(after) - 1, -1, -1):
        other = r + 1
        while other < len(after) and shared[other] >= shared[r]:
            other = after[other]
        after[r] = other
    return after


def order_of(codes: Ids, shares: ClassShares, count: int, weights: Floats, metric: int) -> Ints:
    """(F,) features in the order of the levels, for instances with the profiles (F, M).

    The next feature is the one that adds most to distances for its cost, which is counted in doublings of branches.
    """
    drawn = np.random.default_rng(0).permutation(codes.shape[1])[:SAMPLED_INSTANCES]
    codes = np.ascontiguousarray(codes[:, drawn])
    mean = _mean_distances(codes, shares, count, weights, metric)
    sizes = codes.max(axis=1, initial=0).astype(np.int64) + 1
    order, rest = list[int](), list(range(len(codes)))
    branch, branches = np.zeros(codes.shape[1], np.int64), 1
    while rest:
        cells = {f: np.unique(branch * sizes[f] + codes[f], return_inverse=True) for f in rest}
        gains = {f: mean[f] / (LEVEL_COST + np.log2(len(values) / branches)) for f, (values, _) in cells.items()}
        best = max(rest, key=gains.__getitem__)
        branch, branches = cells[best][1].ravel(), len(cells[best][0])
        order.append(best)
        rest.remove(best)
    return np.array(order, np.int64)


@kernel
def _mean_distances(codes: Ids, shares: ClassShares, count: int, weights: Floats, metric: int) -> Floats:
    """(F,) mean weighted distance of the profiles (F, S) of instances from those of some of them, by feature."""
    mean = np.zeros(len(codes))
    compared = min(COMPARED, codes.shape[1])
    for f in range(len(codes)):
        differ = np.empty(shares.first[f + 1] - shares.first[f])
        for i in range(compared):
            difference(shares, f, count, codes[f, i], weights[f], metric, differ)
            for code in codes[f]:
                mean[f] += differ[code]
        mean[f] /= compared * codes.shape[1]
    return mean


class DistanceTables(NamedTuple):
    """Workspace: weighted distances of a query's profile to all profiles, level by level.

    A level has slots for tables, one after another. The most frequent profiles have a slot each; the last slot is for
    any other profile.

    - ``differ``: the tables; zeros as wide as the widest level at the beginning.
    - ``first``, ``width``, ``slots`` (L,): where the first slot of a level begins, the width of a slot, their number.
    - ``held``: profile whose table is in a slot, −1 for none; the slots of level l begin at ``held_first[l]``.
    - ``row`` (L,): where the query's table begins; the zeros, for a value that training never saw.
    - ``sums`` (L + 1,): sum of distances up to each level, at the place of the search.
    """

    differ: Floats
    first: Ints
    width: Ints
    slots: Ints
    held: Ints
    held_first: Ints
    row: Ints
    sums: Floats


@kernel
def new_tables(shares: ClassShares, order: Ints, kept: int) -> DistanceTables:
    """Tables for a tree with its features in this order, with slots for about ``kept`` distances; none is held yet."""
    levels = len(order)
    first, width, slots = np.empty(levels, np.int64), np.empty(levels, np.int64), np.empty(levels, np.int64)
    held_first = np.empty(levels, np.int64)
    for level in range(levels):
        width[level] = shares.first[order[level] + 1] - shares.first[order[level]]
        slots[level] = min(width[level], kept // (levels * width[level]) + 1)
    size, held = width.max(), 0
    for level in range(levels):
        first[level], held_first[level] = size, held
        size += slots[level] * width[level]
        held += slots[level]
    differ = np.empty(size)
    differ[: first[0]] = 0.0
    free = np.full(held, -1)
    return DistanceTables(
        differ, first, width, slots, free, held_first, np.empty(levels, np.int64), np.zeros(levels + 1)
    )


@inner
def search(
    tree: ProfileTree,
    shares: ClassShares,
    count: int,
    weights: Floats,
    metric: int,
    query: Ids,
    tables: DistanceTables,
    at_head: Floats,
    ballot: Ballot,
) -> None:
    """Finds the instances at the least distances from a query with the profiles (F,), −1 for an unseen value.

    ``at_head`` (H,) is a workspace.
    """
    _tabulate(tree.order, shares, count, weights, metric, query, tables)
    forget(ballot)
    nearest = _measure_heads(tree, tables, at_head)
    _search_head(tree, tables, nearest, at_head[nearest], ballot)
    near = np.flatnonzero(at_head <= limit(ballot))
    for head in near[np.argsort(at_head[near])]:
        if head != nearest and at_head[head] <= limit(ballot):
            _search_head(tree, tables, head, at_head[head], ballot)
    leave_out_far(ballot)


@inner_in_place
def _tabulate(
    order: Ints, shares: ClassShares, count: int, weights: Floats, metric: int, query: Ids, tables: DistanceTables
) -> None:
    """Readies the tables for a query. What unseen values add to all distances is in the sum from the start."""
    tables.sums[0] = 0.0
    for level in range(len(order)):
        f, code = order[level], query[order[level]]
        if code < 0:
            tables.row[level] = 0
            tables.sums[0] += weights[f] * FARTHEST
            continue
        slot = min(code, tables.slots[level] - 1)
        begin = tables.first[level] + slot * tables.width[level]
        tables.row[level] = begin
        held = tables.held_first[level] + slot
        if tables.held[held] != code:
            table = tables.differ[begin : begin + tables.width[level]]
            difference(shares, f, count, code, weights[f], metric, table)
            tables.held[held] = code


@inner_in_place
def _measure_heads(tree: ProfileTree, tables: DistanceTables, at_head: Floats) -> int:
    """Writes the sum of each head's levels into ``at_head`` (H,), and returns the nearest head."""
    sums, best = tables.sums, 0
    for h in range(len(at_head)):
        r = tree.heads[h]
        for level in range(tree.shared[r], tree.depth):
            sums[level + 1] = sums[level] + tables.differ[tables.row[level] + tree.profile[r, level]]
        at_head[h] = sums[tree.depth]
        if at_head[h] < at_head[best]:
            best = h
    return best


@inner_in_place
def _search_head(tree: ProfileTree, tables: DistanceTables, head: int, at_head: float, ballot: Ballot) -> None:
    """Enters all rows of a head that are near enough."""
    profile, shared, differ, row, sums = tree.profile, tree.shared, tables.differ, tables.row, tables.sums
    r, end, level, most = tree.heads[head], tree.heads[head + 1], tree.depth, limit(ballot)
    sums[level] = at_head
    while r < end:
        distance = sums[level]
        while level < len(row) and distance <= most:
            distance += differ[row[level] + profile[r, level]]
            level += 1
            sums[level] = distance
        if distance <= most:
            enter(ballot, distance)
            for i in range(tree.start[r], tree.start[r + 1]):
                keep(ballot, distance, tree.classes[i])
            most = limit(ballot)
        r += 1
        while shared[r] >= level:
            r = tree.after[r]
        level = shared[r]
