"""k-means of an encoder's states, for `workers.models.state_clusters`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from concord.schemas.errors import TrainingError
from concord.workers.models.encoder import WordStates
from concord.workers.models.state_clusters import StateClusters, directions

MOST_STATES = 100_000
"""States that centres are learned from: of more, evenly spaced ones."""
STATE_ROUNDS = 20
"""How often k-means goes through all states."""


def fit_state_clusters(states: WordStates, sizes: Sequence[int], clustered: Callable[[int], None]) -> StateClusters:
    """Clusterings of these sizes; ``clustered`` is called with the number of those that are there.

    Raises `TrainingError` where there are fewer states than clusters.
    """
    from concord.workers.features.clustering.word_clusters import k_means

    if len(states) < max(sizes):
        raise TrainingError(f"{len(states)} words are too few for {max(sizes)} clusters of states; give fewer clusters")
    mean = states.mean(axis=0, dtype=np.float64).astype(np.float32)
    units = directions(states[:: -(-len(states) // MOST_STATES)], mean).astype(np.float64)
    centers = []
    for number, size in enumerate(sizes, 1):
        centers.append(k_means(units, size, 0, STATE_ROUNDS).cluster_centers_.astype(np.float32))
        clustered(number)
    return StateClusters(mean, tuple(centers))
