"""Class distributions of the values of features, and the distances between them; see `workers.papers.canisius.nearest`.

Values with one and the same class distribution are as far from all other values, and not apart from each other: they
share a profile. Most values are rare, so there are far fewer profiles than values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Floats, Ids, Ints
from concord.workers.compiling.kernel import inner_in_place
from concord.workers.papers.canisius.settings import Metric

FARTHEST = 2.0
"""Largest δ: of two values that share no class, or of which one was never seen in training."""
MVDM, JEFFREY = 0, 1
METRIC_NUMBERS = {Metric.MVDM: MVDM, Metric.JEFFREY: JEFFREY}


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
        first, value, of_class, times = _counted(values, classes, count)
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


def _counted(values: Ids, classes: Ids, count: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Number of the first value of each feature (F + 1,); then value, class and times of all that occur together."""
    sizes = values.max(axis=1, initial=-1).astype(np.int64) + 1
    first = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    cells, times = np.unique((values + first[:-1, None]) * count + classes, return_counts=True)
    return first, *np.divmod(cells, count), times


class Profiles(NamedTuple):
    """The profile of each value of F features; those of a feature are numbered from the most frequent one.

    - ``first`` (F + 1,): where the values of each feature begin in ``profile``.
    - ``profile``: number of each value's profile within its feature.
    """

    first: Ints
    profile: Ids

    @classmethod
    def of(cls, values: Ids, classes: Ids, count: int) -> Profiles:
        """Profiles of instances with the values (F, M) and the classes (M,), which are below ``count``."""
        first, value, of_class, times = _counted(values, classes, count)
        start = np.searchsorted(value, np.arange(first[-1] + 1))
        least = times // np.gcd.reduceat(times, start[:-1])[value] if len(value) else times
        entries = np.column_stack([of_class, least])
        entry_bytes, bounds = entries.tobytes(), (start * entries.itemsize * 2).tolist()
        profile = np.empty(first[-1], np.int32)
        for f, row in enumerate(values):
            mine = range(int(first[f]), int(first[f + 1]))
            number_of = dict[bytes, int]()
            numbers = [number_of.setdefault(entry_bytes[bounds[v] : bounds[v + 1]], len(number_of)) for v in mine]
            profile[mine.start : mine.stop] = _by_frequency(np.array(numbers, np.int32), row)
        return cls(first, profile)

    def codes(self, instances: Ids) -> Ids:
        """(Q, F) profiles of instances with the values (Q, F); −1 for a value that training never saw."""
        in_training = (instances >= 0) & (instances < np.diff(self.first))
        profiles = self.profile[np.where(in_training, instances + self.first[:-1], 0)]
        codes: Ids = np.where(in_training, profiles, np.int32(-1))
        return codes


def _by_frequency(numbers: Ids, row: Ids) -> Ids:
    """Profiles (V,) renumbered by how many of the instances (M,), whose values are given, have them."""
    times = np.bincount(numbers[row], minlength=int(numbers.max(initial=-1)) + 1)
    rank = np.empty(len(times), np.int32)
    rank[np.argsort(-times, kind="stable")] = np.arange(len(times), dtype=np.int32)
    renumbered: Ids = rank[numbers]
    return renumbered


@inner_in_place
def difference(shares: ClassShares, f: int, count: int, code: int, weight: float, metric: int, differ: Floats) -> None:
    """Writes weight · δ between value ``code`` of feature f and every value of f into ``differ``.

    δ starts at 2, and each class that both values have takes something off: 2 min(p, q) under mvdm, and under jeffrey
    h(p + q) − h(p) − h(q) with h(x) = x log₂ x.
    """
    for v in range(shares.first[f + 1] - shares.first[f]):
        differ[v] = weight * FARTHEST
    at = shares.first[f] + code
    for i in range(shares.value_start[at], shares.value_start[at + 1]):
        slot, p = f * count + shares.of_class[i], shares.share[i]
        q, less = 0.0, 0.0
        for j in range(shares.class_start[slot], shares.class_start[slot + 1]):
            if shares.by_share[j] != q:  # many values share one number, and logarithms take long
                q = shares.by_share[j]
                if metric == JEFFREY:
                    less = weight * ((p + q) * np.log2(p + q) - p * np.log2(p) - q * np.log2(q))
                else:
                    less = weight * 2.0 * min(p, q)
            differ[shares.value[j]] -= less
    differ[code] = 0.0
