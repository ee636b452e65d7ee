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

Few instances are compared. For overlap, an index lists the instances that have a value, and matches are added up from
these lists, which are short for informative features. For the other metrics, a tree of instances is searched
(`workers.papers.canisius.profile_tree`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from concord.schemas.arrays import Floats, Ids, Ints
from concord.workers.compiling.kernel import inner_in_place, kernel
from concord.workers.papers.canisius.ballots import DECAY_NUMBERS, Ballot, enter, forget, keep, limit, new_ballot, voted
from concord.workers.papers.canisius.neighbourhoods import Neighbourhoods, ranked
from concord.workers.papers.canisius.profile_tree import ProfileTree, new_tables, order_of, search
from concord.workers.papers.canisius.profiles import METRIC_NUMBERS, ClassShares, Profiles
from concord.workers.papers.canisius.settings import Decay, Metric

KEPT_DISTANCES = 1 << 22
"""Number of distances between profiles that are kept from one query to the next, about."""


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
    def _profiles(self) -> Profiles:
        return Profiles.of(self.values, self.classes, self.count)

    @cached_property
    def _grown(self) -> tuple[ProfileTree, ClassShares]:
        """The instances as a tree of profiles, and the class distributions of these."""
        codes = np.ascontiguousarray(self._profiles.codes(self.values.T).T)
        shares = ClassShares.of(codes, self.classes, self.count)
        order = order_of(codes, shares, self.count, self.weights, METRIC_NUMBERS[self.metric])
        return ProfileTree.of(codes, self.classes, order), shares

    def neighbourhoods(self, instances: Ids) -> Neighbourhoods:
        """See `Classifier`."""
        (neighbourhoods,) = self.by_votes([self.vote], instances)
        return neighbourhoods

    def by_votes(self, votes: Sequence[Vote], instances: Ids) -> list[Neighbourhoods]:
        """Neighbourhoods of the instances (Q, F) under each vote; distances are computed once for all votes."""
        queries = np.ascontiguousarray(instances)
        coded_votes = np.array([(k, DECAY_NUMBERS[decay]) for k, decay in votes], np.int64)
        if self.metric is Metric.OVERLAP:
            votes_of = _by_overlap(self._postings, self.weights, self.classes, self.count, queries, coded_votes)
        else:
            (tree, shares), codes, metric = self._grown, self._profiles.codes(queries), METRIC_NUMBERS[self.metric]
            votes_of = _by_classes(tree, shares, self.weights, self.count, codes, coded_votes, metric, KEPT_DISTANCES)
        every = ranked(*votes_of, len(votes) * len(queries))
        return [every.at(np.arange(v * len(queries), (v + 1) * len(queries))) for v in range(len(votes))]

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}


@kernel
def _by_overlap(
    postings: Postings, weights: Floats, classes: Ids, count: int, queries: Ids, votes: Ints
) -> tuple[Ints, Ints, Floats]:
    size, total = len(classes), weights.sum()
    distance = np.empty(size)
    ballot = new_ballot(votes, count, size)
    outcomes, used = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)), 0
    for q in range(len(queries)):
        for i in range(size):
            distance[i] = total
        for f in range(len(weights)):
            if queries[q, f] >= 0 and queries[q, f] < postings.first[f + 1] - postings.first[f] - 1:
                at = postings.first[f] + queries[q, f]
                for p in range(postings.start[at], postings.start[at + 1]):
                    distance[postings.order[f, p]] -= weights[f]
        _gather(distance, classes, ballot)
        outcomes, used = voted(ballot, votes, q, len(queries), outcomes, used)
    return outcomes[0][:used], outcomes[1][:used], outcomes[2][:used]


@inner_in_place
def _gather(distance: Floats, classes: Ids, ballot: Ballot) -> None:
    """Finds the least distinct ones of the distances (M,), and the instances at these."""
    forget(ballot)
    most = limit(ballot)
    for d in distance:
        if d < most:
            enter(ballot, d)
            most = limit(ballot)
    for i in range(len(distance)):
        if distance[i] < most:
            keep(ballot, distance[i], classes[i])


@kernel
def _by_classes(
    tree: ProfileTree,
    shares: ClassShares,
    weights: Floats,
    count: int,
    queries: Ids,
    votes: Ints,
    metric: int,
    kept: int,
) -> tuple[Ints, Ints, Floats]:
    """As `_by_overlap`, of queries with the profiles (Q, F)."""
    tables, at_head = new_tables(shares, tree.order, kept), np.empty(len(tree.heads) - 1)
    ballot = new_ballot(votes, count, len(tree.classes))
    outcomes, used = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)), 0
    for q in range(len(queries)):
        search(tree, shares, count, weights, metric, queries[q], tables, at_head, ballot)
        outcomes, used = voted(ballot, votes, q, len(queries), outcomes, used)
    return outcomes[0][:used], outcomes[1][:used], outcomes[2][:used]
