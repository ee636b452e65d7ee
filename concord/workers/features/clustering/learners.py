"""Ways to learn clusters from counts of words, by the class of their settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from pydantic import ValidationError

from concord.workers.features.clustering.brown import brown_clusters
from concord.workers.features.clustering.clark import clark_clusters
from concord.workers.features.clustering.word_clusters import clustered, vectors
from concord.workers.features.clustering.word_counts import ContextCounts, Contexts, contexts_of
from concord.workers.features.clustering.word_pairs import bigrams_of
from concord.workers.features.clusters import ClusterFileError, ClusterRecipe, Clusters
from concord.workers.features.settings import (
    CLUSTER_WAYS,
    BrownSettings,
    ClarkSettings,
    ClusterLearning,
    CoOccurrenceSettings,
    CountedClustering,
)


class WordLearner(NamedTuple):
    """A way to learn clusters from counts.

    - ``contexts``: what is counted for the words of a corpus, most frequent first.
    - ``steps``: how much work there is, by the number of words; None where it cannot be known.
    - ``clusters``: the clusters of the words, by the counts; the last argument is told of work done.
    """

    contexts: Callable[[Sequence[str], Any], Contexts]
    steps: Callable[[int, Any], int | None]
    clusters: Callable[[ContextCounts, Contexts, Any, Callable[[int], object]], Clusters]


def _by_directions(
    pairs: ContextCounts, contexts: Contexts, settings: CoOccurrenceSettings, _advanced: Callable[[int], object]
) -> Clusters:
    return clustered(contexts.words, vectors(pairs, contexts, settings), settings)


WORD_LEARNERS: Mapping[type[CountedClustering], WordLearner] = MappingProxyType(
    {
        CoOccurrenceSettings: WordLearner(contexts_of, lambda _words, _settings: None, _by_directions),
        BrownSettings: WordLearner(
            lambda words, _settings: bigrams_of(words), lambda words, _settings: words, brown_clusters
        ),
        ClarkSettings: WordLearner(
            lambda words, _settings: bigrams_of(words),
            lambda _words, settings: settings.iterations * len(settings.clusters),
            clark_clusters,
        ),
    }
)
"""By the class of their settings."""


def recipe_of(settings: ClusterLearning, corpora: Sequence[str], encoder: str | None = None) -> ClusterRecipe:
    """The recipe of clusters that are learned by these settings from corpora, and by an encoder, with these digests."""
    (way,) = (name for name, kind in CLUSTER_WAYS.items() if kind is type(settings))
    options = settings.model_dump(mode="json")
    return ClusterRecipe(way=way, options=options, corpora=tuple(corpora), encoder=encoder)


def settings_of(recipe: ClusterRecipe, file: Path) -> ClusterLearning:
    """The settings of the recipe of a file. Raises `ClusterFileError` where this version has no such way or option."""
    if recipe.way not in CLUSTER_WAYS:
        raise ClusterFileError(f"{file}: clusters of the unknown way {recipe.way!r}; make them again")
    try:
        return CLUSTER_WAYS[recipe.way].model_validate(recipe.options)
    except ValidationError as error:
        fault = error.errors()[0]["msg"]
        raise ClusterFileError(f"{file}: clusters of another version's options ({fault}); make them again") from error
