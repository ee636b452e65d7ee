"""Clusters of an encoder's states: which of them a word is in, where it stands, is a column that features read.

A word's state is read as a direction from the mean of all states, and belongs to the nearest centre of k-means. Unlike
clusters of words (`concord clusters`), one word has several clusters where its sentences say different things of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.document import Column
from concord.workers.features.templates import state_column
from concord.workers.models.arrays_file import SCORES, ArrayKind
from concord.workers.models.encoder import WordStates

SHORTEST = 1e-9
"""Added to the length of a state, which may be that of the mean itself."""


class StateClusters(NamedTuple):
    """G clusterings of states of D numbers.

    - ``mean`` (D,): mean of all states.
    - ``centers``: of each clustering, (k, D) centres of its k clusters.
    """

    mean: NDArray[np.float32]
    centers: tuple[NDArray[np.float32], ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of clusters of each clustering."""
        return tuple(map(len, self.centers))

    def of(self, states: WordStates) -> NDArray[np.float32]:
        """(N, G) the cluster of each state in each clustering; whole numbers."""
        units = directions(states, self.mean)
        nearest = [np.argmax(units @ own.T - (own * own).sum(axis=1) / 2, axis=1) for own in self.centers]
        return np.stack(nearest, axis=1).astype(np.float32)

    def columns(self, clusters: NDArray[np.float32]) -> dict[str, Column]:
        """Columns of tokens, given their clusters (N, G)."""
        return {
            state_column(size): Column(own.astype(np.int32), tuple(map(str, range(size))))
            for size, own in zip(self.sizes, clusters.T, strict=True)
        }


def directions(states: WordStates, mean: NDArray[np.float32]) -> WordStates:
    """(N, D) states as directions of length 1 from their mean."""
    away = states - mean
    units: WordStates = away / (np.linalg.norm(away, axis=1, keepdims=True) + SHORTEST)
    return units.astype(np.float32)


def cluster_arrays(sizes: Sequence[int]) -> tuple[ArrayKind, ...]:
    """Arrays of clusterings of these sizes in a file."""
    centers = (ArrayKind(f"centers {size}", "<f4", (f"clusters {size}", "states"), SCORES) for size in sizes)
    return ArrayKind("mean", "<f4", ("states",), SCORES), *centers
