"""Word clusters learned from the texts of corpora, whose words Ray's workers count."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from concord.flows.cluster.cluster import Cluster
from concord.flows.cluster.counting import count_all
from concord.flows.screen.progress import meter
from concord.schemas.settings import TextSettings
from concord.workers.corpus.shard_table import ShardTable
from concord.workers.features.clustering.learners import WORD_LEARNERS, recipe_of
from concord.workers.features.clustering.word_clusters import frequent_words
from concord.workers.features.clustering.word_counts import ContextCounts, Contexts, WordCounts
from concord.workers.features.clusters import Clusters
from concord.workers.features.settings import ClusterLearning
from concord.workers.remote.words import CONTEXTS, WORDS, ContextsParts, WordsParts


class ClusterCounts(NamedTuple):
    """Counts of corpora.

    - ``tokens``: number of tokens read.
    - ``contexts``: the frequent words, and the contexts that are counted.
    - ``pairs``: number of occurrences of each word in each context.
    """

    tokens: int
    contexts: Contexts
    pairs: ContextCounts


def cluster_counts(
    corpora: Sequence[ShardTable], settings: ClusterLearning, running: Cluster, text: TextSettings
) -> ClusterCounts:
    """Counts that clusters of these settings are learned from; every shard is read twice.

    Raises `ShardsError` if a shard failed, `FewWordsError` if there are too few words, and `ClusterError`.
    """
    shards = [shard for corpus in corpora for shard in corpus]
    counts = WordCounts.merge(count_all(running, WORDS, shards, WordsParts(text), title="counting words"))
    words = frequent_words(
        counts.words, least_count=settings.least_count, most=settings.words, clusters=settings.most_clusters
    )
    contexts = WORD_LEARNERS[type(settings)].contexts(words, settings)
    pairs = count_all(running, CONTEXTS, shards, ContextsParts(contexts, text), title="counting contexts")
    return ClusterCounts(counts.tokens, contexts, ContextCounts.merge(pairs))


def learned_clusters(counts: ClusterCounts, corpora: Sequence[ShardTable], settings: ClusterLearning) -> Clusters:
    """Clusters by counts of these corpora, with the recipe by which they were learned."""
    learner, words = WORD_LEARNERS[type(settings)], len(counts.contexts.words)
    with meter("clustering words", learner.steps(words, settings)) as bar:
        found = learner.clusters(counts.pairs, counts.contexts, settings, bar.advance)
    return replace(found, recipe=recipe_of(settings, list(map(texts_digest, corpora))))


def texts_digest(shards: ShardTable) -> str:
    """Hex digest of the rows of a corpus, in any order of its shards, whatever is known of corrections."""
    first, last = shards.digests.view(">u8").T
    return hashlib.sha256(shards.digests[np.lexsort((last, first))].tobytes()).hexdigest()
