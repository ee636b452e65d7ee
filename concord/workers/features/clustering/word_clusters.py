"""Clusters of words by their vectors: k-means of the vectors' directions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from sklearn.cluster import MiniBatchKMeans

from concord.schemas.arrays import Floats
from concord.schemas.errors import InputError
from concord.workers.features.clusters import Clusters
from concord.workers.features.settings import ClusterSettings

ROUNDS = 60
"""Largest number of iterations of k-means."""
SAMPLE = 4096
"""Words a step of k-means."""


class FewWordsError(InputError):
    """Too few words to be put into so many clusters."""


def clustered(words: Sequence[str], points: Floats, settings: ClusterSettings) -> Clusters:
    """Clusterings of words by the directions of their vectors (V, d).

    Raises `FewWordsError` if there are fewer words than clusters.
    """
    if len(words) < max(settings.clusters):
        raise FewWordsError(
            f"there are {len(words)} words for {max(settings.clusters)} clusters; give more, or fewer --set clusters"
        )
    unit = _directions(points)
    codes = [k_means(unit, size, settings.seed).labels_.astype(np.int32) for size in settings.clusters]
    return Clusters(pa.array(words, pa.string()), tuple(map(str, settings.clusters)), np.stack(codes, axis=1))


def k_means(points: Floats, size: int, seed: int, rounds: int = ROUNDS) -> MiniBatchKMeans:
    """k-means of points (n, D) into so many clusters; each is seen at most ``rounds`` times."""
    return MiniBatchKMeans(size, random_state=seed, n_init=1, batch_size=SAMPLE, max_iter=rounds).fit(points)


def _directions(points: Floats) -> Floats:
    length = np.linalg.norm(points, axis=1, keepdims=True)
    unit: Floats = np.divide(points, length, out=np.zeros_like(points), where=length > 0)
    return unit
