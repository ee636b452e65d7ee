"""Word clusters from unlabelled text: positive pointwise mutual information, truncated SVD, and k-means.

With p the shares of the counts of words w and contexts c (`workers.features.clustering.word_counts`), those of contexts
raised to 3/4 so that rare ones do not stand out (Levy, Goldberg & Dagan 2015),

    M[w, c] = max(0, log p(w, c) / (p(w) · p(c))) ≈ U · S · Vᵀ,

and a word's vector is its row of U · √S at length 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse
from sklearn.cluster import MiniBatchKMeans
from sklearn.utils.extmath import randomized_svd

from concord.schemas.arrays import Floats, Ints
from concord.schemas.errors import InputError
from concord.workers.features.clustering.word_counts import ContextCounts, Contexts
from concord.workers.features.clusters import Clusters
from concord.workers.features.settings import ClusterSettings, CoOccurrenceSettings

SMOOTHING = 0.75
ROUNDS = 60
"""Largest number of iterations of k-means."""
SAMPLE = 4096
"""Words a step of k-means."""


class FewWordsError(InputError):
    """Text with too few words to be put into so many clusters."""


def frequent_words(counts: Mapping[str, int], *, least_count: int, most: int, clusters: int) -> list[str]:
    """The words that get clusters, the most frequent first, equals in the order of their letters.

    Raises `FewWordsError` where they are fewer than the clusters.
    """
    words = [word for word, count in counts.items() if count >= least_count]
    words.sort(key=lambda word: (-counts[word], word))
    return _enough(words[:most], clusters)


def _enough(words: list[str], clusters: int) -> list[str]:
    if len(words) < clusters:
        raise FewWordsError(
            f"there are {len(words)} words for {clusters} clusters; give more text, or fewer --set clusters"
        )
    return words


def vectors(counts: ContextCounts, contexts: Contexts, settings: CoOccurrenceSettings) -> Floats:
    """(V, d) the words' vectors, of length 1 or, without a context that says anything, 0."""
    pairs = _table(counts.times, counts.pair // contexts.shape[1], counts.pair % contexts.shape[1], contexts).tocoo()
    word = np.asarray(pairs.sum(axis=1)).ravel()
    context = np.asarray(pairs.sum(axis=0)).ravel() ** SMOOTHING
    information = np.log(pairs.data / word[pairs.row] / (context[pairs.col] / context.sum()))
    keep = information > 0
    table = _table(information[keep], pairs.row[keep], pairs.col[keep], contexts)
    size = min(settings.dimensions, min(table.shape) - 1)
    left, weight, _ = randomized_svd(table, size, n_iter=3, random_state=settings.seed)
    found: Floats = left * np.sqrt(weight)
    return found


def _table(values: NDArray[Any], word: Ints, context: Ints, contexts: Contexts) -> sparse.csr_array:
    return sparse.csr_array((values, (word, context)), shape=contexts.shape)


def clustered(words: Sequence[str], points: Floats, settings: ClusterSettings) -> Clusters:
    """Clusterings of words by the directions of their vectors (V, d).

    Raises `FewWordsError` if there are fewer words than clusters.
    """
    _enough(list(words), max(settings.clusters))
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


def with_more_words(
    clusters: Clusters, places: Ints, points: Floats, words: Sequence[str], more_points: Floats
) -> Clusters:
    """The clusters with further words, each in the cluster whose mean direction is nearest to its own.

    - ``points`` (n, D): vectors of the words at these ``places`` of the table.
    - ``more_points`` (m, D): vectors of the further ``words``.
    """
    unit, more = _directions(points), _directions(more_points)
    codes = [_nearest(unit, clusters.codes[places, g], more) for g in range(len(clusters.names))]
    return replace(
        clusters,
        words=pa.array([*clusters.words.to_pylist(), *words], pa.string()),
        codes=np.concatenate([clusters.codes, np.stack(codes, axis=1)]),
    )


def _nearest(unit: Floats, codes: NDArray[np.int32], more: Floats) -> NDArray[np.int32]:
    """The nearest cluster (m,) of each of ``more`` (m, D); a cluster is the mean of its own ``unit`` (n, D)."""
    numbers, member = np.unique(codes, return_inverse=True)
    members = sparse.csr_array((np.ones(len(codes)), (member, np.arange(len(codes)))), shape=(len(numbers), len(codes)))
    centre = (members @ unit) / np.bincount(member)[:, None]
    distance = (centre**2).sum(axis=1) - 2 * (more @ centre.T)
    nearest: NDArray[np.int32] = numbers[distance.argmin(axis=1)].astype(np.int32)
    return nearest
