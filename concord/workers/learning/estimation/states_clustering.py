"""k-means of an encoder's states, for `workers.models.state_clusters`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from concord.schemas.errors import TrainingError
from concord.workers.models.encoder import WordStates
from concord.workers.models.state_clusters import StateClusters, directions

MOST_STATES = 100_000
"""States that centres are learned from: of more, evenly spaced ones."""
AT_ONCE, ROUNDS = 4096, 20
"""States of a step of k-means, and how often it goes through all of them."""


def fit_state_clusters(states: WordStates, sizes: Sequence[int], clustered: Callable[[int], None]) -> StateClusters:
    """Clusterings of these sizes; ``clustered`` is called with the number of those that are there.

    Raises `TrainingError` where there are fewer states than clusters.
    """
    from sklearn.cluster import MiniBatchKMeans

    if len(states) < max(sizes):
        raise TrainingError(f"{len(states)} words are too few for {max(sizes)} clusters of states; give fewer clusters")
    mean = states.mean(axis=0, dtype=np.float64).astype(np.float32)
    units = directions(states[:: -(-len(states) // MOST_STATES)], mean).astype(np.float64)
    centers = []
    for number, size in enumerate(sizes, 1):
        learner = MiniBatchKMeans(size, random_state=0, n_init=1, batch_size=AT_ONCE, max_iter=ROUNDS)
        centers.append(learner.fit(units).cluster_centers_.astype(np.float32))
        clustered(number)
    return StateClusters(mean, tuple(centers))
