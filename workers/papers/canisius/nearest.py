"""Exact k-nearest-neighbour classifier: IB1 of Daelemans et al. (2009), TiMBL reference guide §5.

The distance of two instances is Σ_f w_f · δ_f, where w_f is the weight of feature f and δ_f the distance of its two
values. Three metrics give δ; p and q are the class distributions of the training instances that have the one value and
the other (Stanfill & Waltz 1986; Cost & Salzberg 1993):

    overlap   δ = 1 where the values differ, otherwise 0
    mvdm      δ = Σ_c |p_c − q_c|
    jeffrey   δ = Σ_c p_c log₂(2 p_c ∕ (p_c + q_c)) + q_c log₂(2 q_c ∕ (p_c + q_c))

The last two are between 0 and 2; a value that training never saw is at distance 2 from every other.

As in TiMBL, k counts distances, not instances: all instances at one of the k least distances are neighbours, each with
a weight by its distance. Where several classes tie for the largest weight, one more distance is taken if that breaks
the tie.

Overlap needs no comparison of instances: an index lists the instances that have a value, and matches are added up from
these lists, which are short for informative features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from concord.schemas.arrays import Floats, Ids, Ints
from concord.workers.compiling.kernel import inner_in_place, kernel
from concord.workers.papers.canisius.neighbourhoods import Neighbourhoods, ranked
from concord.workers.papers.canisius.settings import Decay, Metric

FARTHEST = 2.0
"""Largest δ: of two values that share no class, or of which one was never seen in training."""
DECAYS = {Decay.NONE: 0, Decay.INVERSE: 1, Decay.LINEAR: 2, Decay.EXPONENTIAL: 3}
MVDM, JEFFREY = 0, 1
METRICS = {Metric.MVDM: MVDM, Metric.JEFFREY: JEFFREY}
NEAR = 1e-6
"""Number added to a distance before it is inverted."""
SAME_DISTANCE = 1e-9
"""Tolerance: distances, and shares, that differ by less are equal."""


class Postings(NamedTuple):
    """Inverted index: the instances (of M) that have each value of each feature (of F).

    - ``order`` (F, M): instances sorted by their value of each feature.
    - ``start``: bounds in ``order[f]``; value v of feature f has the instances from start[first[f] + v] to the next
      bound.
    - ``first`` (F + 1,): where the bounds of each feature begin in ``start``.
    """

    order: Ids
    start: Ints
    first: Ints

    @classmethod
    def of(cls, values: Ids) -> Postings:
        """Index of instances with the values (F, M)."""
        order = np.argsort(values, axis=1, kind="stable").astype(np.int32)
        sizes = values.max(axis=1, initial=-1).astype(np.int64) + 1
        starts = [np.searchsorted(row[by], np.arange(n + 1)) for row, by, n in zip(values, order, sizes, strict=True)]
        first = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes + 1)])
        return cls(order, np.concatenate([np.zeros(0, np.int64), *starts]), first)


class ClassShares(NamedTuple):
    """Sparse table of p(class | value), sorted once by value and once by class.

    Values are numbered through all F features; there are C classes.

    - ``first`` (F + 1,): number of the first value of each feature.
    - ``value_start``: bounds by value; the entries of value v are i in value_start[v]:value_start[v + 1].
    - ``of_class``, ``share``: class of each of these entries, and its p(class | v).
    - ``class_start``: bounds by class; those of class c and feature f are at s = f · C + c, its entries are i in
      class_start[s]:class_start[s + 1].
    - ``value``, ``by_share``: value of each of these entries, numbered within its feature, and p(c | value), ascending.
    """

    first: Ints
    value_start: Ints
    of_class: Ints
    share: Floats
    class_start: Ints
    value: Ints
    by_share: Floats

    @classmethod
    def of(cls, values: Ids, classes: Ids, count: int) -> ClassShares:
        """Table of instances with the values (F, M) and the classes (M,), which are below ``count``."""
        sizes = values.max(axis=1, initial=-1).astype(np.int64) + 1
        first = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        cell = (values + first[:-1, None]) * count + classes
        cells, times = np.unique(cell, return_counts=True)
        value, of_class = np.divmod(cells, count)
        share = times / np.bincount(value, times, int(first[-1]))[value]
        feature = np.searchsorted(first, value, side="right") - 1
        order = np.lexsort((share, of_class, feature))
        slots = feature[order] * count + of_class[order]
        return cls(
            first,
            np.searchsorted(value, np.arange(first[-1] + 1)),
            of_class,
            share,
            np.searchsorted(slots, np.arange(len(values) * count + 1)),
            (value - first[feature])[order],
            share[order],
        )


class Vote(NamedTuple):
    """Voting of neighbours: ``k``, the number of smallest distances, and the decay of weight by distance."""

    k: int
    decay: Decay


@dataclass(frozen=True, eq=False)
class Nearest:
    """A nearest-neighbour classifier of M training instances with F features.

    - ``values`` (F, M): values of the instances, numbered by feature.
    - ``classes`` (M,): their classes, below ``count``.
    - ``weights`` (F,): weights of the features.
    - ``metric``, ``vote``: distance of two values; number of distances and decay.
    """

    values: Ids
    classes: Ids
    count: int
    weights: Floats
    metric: Metric
    vote: Vote

    @cached_property
    def _postings(self) -> Postings:
        return Postings.of(self.values)

    @cached_property
    def _shares(self) -> ClassShares:
        return ClassShares.of(self.values, self.classes, self.count)

    def neighbourhoods(self, instances: Ids) -> Neighbourhoods:
        """See `Classifier`."""
        (found,) = self.by_votes([self.vote], instances)
        return found

    def by_votes(self, votes: Sequence[Vote], instances: Ids) -> list[Neighbourhoods]:
        """Neighbourhoods of the instances (Q, F) under each vote; distances are computed once for all votes."""
        queries = np.ascontiguousarray(instances)
        told = np.array([(k, DECAYS[decay]) for k, decay in votes], np.int64)
        given = self.weights, self.classes, self.count, queries, told
        if self.metric is Metric.OVERLAP:
            found = _by_overlap(self._postings, *given)
        else:
            found = _by_classes(self._shares, self.values, *given, METRICS[self.metric])
        every = ranked(*found, len(votes) * len(queries))
        return [every.at(np.arange(v * len(queries), (v + 1) * len(queries))) for v in range(len(votes))]

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}


@kernel
def _by_overlap(
    postings: Postings, weights: Floats, classes: Ids, count: int, queries: Ids, votes: Ints
) -> tuple[Ints, Ints, Floats]:
    size, total = len(classes), weights.sum()
    distance = np.empty(size)
    ballot = _ballot(votes, count, size)
    told, used = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)), 0
    for q in range(len(queries)):
        for i in range(size):
            distance[i] = total
        for f in range(len(weights)):
            if queries[q, f] >= 0 and queries[q, f] < postings.first[f + 1] - postings.first[f] - 1:
                at = postings.first[f] + queries[q, f]
                for p in range(postings.start[at], postings.start[at + 1]):
                    distance[postings.order[f, p]] -= weights[f]
        _gather(distance, classes, ballot)
        told, used = _voted(ballot, votes, q, len(queries), told, used)
    return told[0][:used], told[1][:used], told[2][:used]


@kernel
def _by_classes(
    shares: ClassShares,
    values: Ids,
    weights: Floats,
    classes: Ids,
    count: int,
    queries: Ids,
    votes: Ints,
    metric: int,
) -> tuple[Ints, Ints, Floats]:
    size = len(classes)
    distance = np.empty(size)
    widest = 0
    for f in range(len(weights)):
        widest = max(widest, shares.first[f + 1] - shares.first[f])
    differ = np.empty(widest)
    ballot = _ballot(votes, count, size)
    told, used = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)), 0
    for q in range(len(queries)):
        for i in range(size):
            distance[i] = 0.0
        for f in range(len(weights)):
            _difference(shares, f, count, queries[q, f], metric, differ)
            for i in range(size):
                distance[i] += weights[f] * differ[values[f, i]]
        _gather(distance, classes, ballot)
        told, used = _voted(ballot, votes, q, len(queries), told, used)
    return told[0][:used], told[1][:used], told[2][:used]


@inner_in_place
def _difference(shares: ClassShares, f: int, count: int, code: int, metric: int, differ: Floats) -> None:
    """Writes δ between value ``code`` of feature f and every value of f into ``differ``.

    δ starts at 2, and each class that both values have takes something off: 2 min(p, q) under mvdm, and under jeffrey
    h(p + q) − h(p) − h(q) with h(x) = x log₂ x.
    """
    width = shares.first[f + 1] - shares.first[f]
    for v in range(width):
        differ[v] = FARTHEST
    if code < 0 or code >= width:
        return
    at = shares.first[f] + code
    for i in range(shares.value_start[at], shares.value_start[at + 1]):
        slot, p = f * count + shares.of_class[i], shares.share[i]
        q, less = 0.0, 0.0
        for j in range(shares.class_start[slot], shares.class_start[slot + 1]):
            if shares.by_share[j] != q:  # many values share one number, and logarithms take long
                q = shares.by_share[j]
                if metric == JEFFREY:
                    less = (p + q) * np.log2(p + q) - p * np.log2(p) - q * np.log2(q)
                else:
                    less = 2.0 * min(p, q)
            differ[shares.value[j]] -= less
    differ[code] = 0.0


class Ballot(NamedTuple):
    """Workspace for the neighbours of one query.

    - ``nearest``: the least distinct distances, ascending; one more than the largest k fit in.
    - ``distance``, ``of_class``: distance and class of each instance at one of these.
    - ``sizes`` (2,): number of entries in ``nearest``, and in ``distance``.
    - ``shares`` (C,): the outcome, the share of each class in the neighbours' weight.
    """

    nearest: Floats
    distance: Floats
    of_class: Ints
    sizes: Ints
    shares: Floats


@kernel
def _ballot(votes: Ints, count: int, size: int) -> Ballot:
    widest = votes[:, 0].max()
    return Ballot(
        np.empty(widest + 1), np.empty(size), np.empty(size, np.int64), np.zeros(2, np.int64), np.zeros(count)
    )


@inner_in_place
def _gather(distance: Floats, classes: Ids, ballot: Ballot) -> None:
    """Finds the least distinct ones of the distances (M,), and the instances at these."""
    nearest, found = ballot.nearest, 0
    last = len(nearest) - 1
    for d in distance:
        if found > last and d > nearest[last] - SAME_DISTANCE:
            continue
        place = found
        while place > 0 and nearest[place - 1] > d + SAME_DISTANCE:
            place -= 1
        if place > 0 and nearest[place - 1] > d - SAME_DISTANCE:
            continue
        if found <= last:
            found += 1
        for j in range(found - 1, place, -1):
            nearest[j] = nearest[j - 1]
        nearest[place] = d
    there = 0
    for i in range(len(distance)):
        if distance[i] < nearest[found - 1] + SAME_DISTANCE:
            ballot.distance[there], ballot.of_class[there] = distance[i], classes[i]
            there += 1
    ballot.sizes[0], ballot.sizes[1] = found, there


@kernel
def _voted(
    ballot: Ballot, votes: Ints, q: int, queries: int, told: tuple[Ints, Ints, Floats], used: int
) -> tuple[tuple[Ints, Ints, Floats], int]:
    """Appends the outcome of every vote on query q (of ``queries``) to ``told``: instances, classes and shares.

    Returns the arrays, which are longer ones where the given had no room, and the number of entries used.
    """
    most = used + len(votes) * len(ballot.shares)
    if most > len(told[2]):
        grown = max(2 * len(told[2]), most, 1024)
        told = _grown(told[0], grown), _grown(told[1], grown), _grown_floats(told[2], grown)
    for v in range(len(votes)):
        _vote(ballot, votes[v, 0], votes[v, 1])
        used = _told(ballot.shares, v * queries + q, told[0], told[1], told[2], used)
    return told, used


@inner_in_place
def _vote(ballot: Ballot, k: int, decay: int) -> None:
    """Computes the shares of the classes among the neighbours; takes one more distance where that breaks a tie."""
    nearest, found = ballot.nearest, ballot.sizes[0]
    most = nearest[min(k, found) - 1]
    _count(ballot, most, decay)
    if found > k and _tied(ballot.shares):
        _count(ballot, nearest[k], decay)
        if _tied(ballot.shares):
            _count(ballot, most, decay)


@inner_in_place
def _tied(shares: Floats) -> bool:
    best, times = -1.0, 0
    for share in shares:
        if share > best + SAME_DISTANCE:
            best, times = share, 1
        elif share > best - SAME_DISTANCE:
            times += 1
    return times > 1


@inner_in_place
def _count(ballot: Ballot, most: float, decay: int) -> None:
    """Computes the shares of the classes among all instances at a distance of at most ``most``."""
    shares, least = ballot.shares, ballot.nearest[0]
    for c in range(len(shares)):
        shares[c] = 0.0
    total = 0.0
    for i in range(ballot.sizes[1]):
        d = ballot.distance[i]
        if d < most + SAME_DISTANCE:
            weight = 1.0
            if decay == 1:
                weight = 1.0 / (d + NEAR)
            elif decay == 2 and most > least:
                weight = (most - d) / (most - least)
            elif decay == 3:
                weight = np.exp(-d)
            shares[ballot.of_class[i]] += weight
            total += weight
    for c in range(len(shares)):
        shares[c] /= total


@inner_in_place
def _told(shares: Floats, q: int, instance: Ints, of_class: Ints, share: Floats, used: int) -> int:
    for c in range(len(shares)):
        if shares[c] > 0.0:
            instance[used], of_class[used], share[used] = q, c, shares[c]
            used += 1
    return used


@kernel
def _grown(array: Ints, size: int) -> Ints:
    grown = np.empty(size, np.int64)
    grown[: len(array)] = array
    return grown


@kernel
def _grown_floats(array: Floats, size: int) -> Floats:
    grown = np.empty(size)
    grown[: len(array)] = array
    return grown
