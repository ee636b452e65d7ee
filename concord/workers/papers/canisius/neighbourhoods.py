"""Neighbourhoods, the answer of a memory-based classifier: classes of the nearest neighbours, each with its share."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from concord.schemas.arrays import Floats, Ids, Ints


class Neighbourhoods(NamedTuple):
    """Neighbourhoods of Q instances, one after another in flat arrays.

    - ``pointer`` (Q + 1,): the entries of instance q are pointer[q]:pointer[q + 1].
    - ``classes``: classes of the neighbours, the predicted one first.
    - ``share``: fraction of the neighbours' weight that has this class; sums to 1 for each instance. The confidence of
      a class in Canisius et al. (2011) §5.
    """

    pointer: Ints
    classes: Ints
    share: Floats

    @property
    def predicted(self) -> Ints:
        """(Q,) predicted class: the one with the largest share, the lowest number of equals."""
        return self.classes[self.pointer[:-1]]

    @property
    def instance(self) -> Ints:
        """The instance of each entry."""
        return np.repeat(np.arange(len(self.pointer) - 1), np.diff(self.pointer))

    def at(self, places: Ints) -> Neighbourhoods:
        """Neighbourhoods of the instances at these places, in this order; a place may come more than once."""
        sizes = np.diff(self.pointer)[places]
        pointer = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        entries = np.repeat(self.pointer[places] - pointer[:-1], sizes) + np.arange(pointer[-1])
        return Neighbourhoods(pointer, self.classes[entries], self.share[entries])


def ranked(instance: Ints, classes: Ints, share: Floats, count: int) -> Neighbourhoods:
    """Neighbourhoods of ``count`` instances from E entries in any order: each has an instance, a class and a share."""
    order = np.lexsort((classes, -share, instance))
    return Neighbourhoods(np.searchsorted(instance[order], np.arange(count + 1)), classes[order], share[order])


class Classifier(Protocol):
    """Finds neighbourhoods of instances. An instance has F features as numbers of values, −1 for an unseen value."""

    def neighbourhoods(self, instances: Ids) -> Neighbourhoods:
        """Neighbourhoods of the Q instances (Q, F)."""
        ...


def told_once(classifier: Classifier, instances: Ids) -> Neighbourhoods:
    """Neighbourhoods of the instances (Q, F); equal instances are classified only once."""
    if not len(instances):
        return Neighbourhoods(np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0))
    distinct, place = np.unique(instances, axis=0, return_inverse=True)
    return classifier.neighbourhoods(distinct).at(place.ravel())
