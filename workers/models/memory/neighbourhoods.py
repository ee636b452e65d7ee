"""What a memory-based classifier says of instances: the classes of their nearest neighbours, each with its share."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from concord.schemas.arrays import Floats, Ids, Ints


class Neighbourhoods(NamedTuple):
    """The neighbourhoods of Q instances, one after another.

    Instance q has the classes ``classes[pointer[q]:pointer[q + 1]]``, the one predicted first, and ``share`` is what
    each has of the weight of all neighbours: Canisius et al. (2011) §5, the confidence of a class. They sum to 1.
    """

    pointer: Ints
    classes: Ints
    share: Floats

    @property
    def predicted(self) -> Ints:
        """(Q,) the class that has the most; ties go to the lowest number."""
        return self.classes[self.pointer[:-1]]

    @property
    def instance(self) -> Ints:
        """The instance of each entry."""
        return np.repeat(np.arange(len(self.pointer) - 1), np.diff(self.pointer))

    def at(self, places: Ints) -> Neighbourhoods:
        """The neighbourhoods of these instances, each as often as it is asked for."""
        sizes = np.diff(self.pointer)[places]
        pointer = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        entries = np.repeat(self.pointer[places] - pointer[:-1], sizes) + np.arange(pointer[-1])
        return Neighbourhoods(pointer, self.classes[entries], self.share[entries])


def ranked(instance: Ints, classes: Ints, share: Floats, count: int) -> Neighbourhoods:
    """Of entries in any order: instances (E,) below ``count``, their classes and shares."""
    order = np.lexsort((classes, -share, instance))
    return Neighbourhoods(np.searchsorted(instance[order], np.arange(count + 1)), classes[order], share[order])


class Classifier(Protocol):
    """Tells neighbourhoods of instances; F features are numbered by value, −1 is a value that was never seen."""

    def neighbourhoods(self, instances: Ids) -> Neighbourhoods:
        """Of each of the Q instances (Q, F)."""
        ...


def told_once(classifier: Classifier, instances: Ids) -> Neighbourhoods:
    """The neighbourhoods of the instances (Q, F), equal ones classified once."""
    if not len(instances):
        return Neighbourhoods(np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0))
    distinct, place = np.unique(instances, axis=0, return_inverse=True)
    return classifier.neighbourhoods(distinct).at(place.ravel())
