"""Word clusters learned from the texts of corpora, which Ray's workers read."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from concord.flows.cluster.counting import count_all
from concord.flows.errors import failed_message
from concord.flows.screen.progress import meter
from concord.flows.work.done import Workers
from concord.schemas.errors import ShardsError
from concord.schemas.settings import TextSettings
from concord.workers.corpus.plan import distinct
from concord.workers.corpus.shard_table import ShardTable
from concord.workers.features.clustering.learners import WORD_LEARNERS, recipe_of
from concord.workers.features.clustering.word_clusters import clustered, frequent_words, with_more_words
from concord.workers.features.clustering.word_counts import ContextCounts, Contexts, WordCounts
from concord.workers.features.clustering.word_states import StateSums
from concord.workers.features.clusters import Clusters
from concord.workers.features.settings import ClusterLearning, CountedClustering, StateSettings
from concord.workers.models.encoder import Encoder
from concord.workers.remote.states import STATE_SUMS, StatesParts
from concord.workers.remote.words import CONTEXTS, WORDS, ContextsParts, WordsParts


class FrequentWords(NamedTuple):
    """The words of corpora that get clusters, the most frequent first, and the number of tokens read."""

    tokens: int
    words: list[str]


class ClustersOfTokens(NamedTuple):
    """Clusters, and the number of tokens that were read for them."""

    clusters: Clusters
    tokens: int


class ClusterCounts(NamedTuple):
    """Counts of corpora.

    - ``tokens``: number of tokens read.
    - ``contexts``: the frequent words, and the contexts that are counted.
    - ``pairs``: number of occurrences of each word in each context.
    """

    tokens: int
    contexts: Contexts
    pairs: ContextCounts


def most_frequent(
    corpora: Sequence[ShardTable], settings: ClusterLearning, running: Workers, text: TextSettings
) -> FrequentWords:
    """The words of corpora that get clusters by these settings.

    Raises `ShardsError` if a shard failed, `FewWordsError` if there are too few words, and `ClusterError`.
    """
    shards = [shard for corpus in corpora for shard in corpus]
    counts = WordCounts.merge(count_all(running, WORDS, shards, WordsParts(text), title="counting words"))
    words = frequent_words(
        counts.words, least_count=settings.least_count, most=settings.words, clusters=settings.most_clusters
    )
    return FrequentWords(counts.tokens, words)


def cluster_counts(
    corpora: Sequence[ShardTable], settings: CountedClustering, running: Workers, text: TextSettings
) -> ClusterCounts:
    """Counts that clusters of these settings are learned from; every shard is read twice.

    Raises `ShardsError` if a shard failed, `FewWordsError` if there are too few words, and `ClusterError`.
    """
    shards = [shard for corpus in corpora for shard in corpus]
    tokens, words = most_frequent(corpora, settings, running, text)
    contexts = WORD_LEARNERS[type(settings)].contexts(words, settings)
    pairs = count_all(running, CONTEXTS, shards, ContextsParts(contexts, text), title="counting contexts")
    return ClusterCounts(tokens, contexts, ContextCounts.merge(pairs))


def learned_clusters(counts: ClusterCounts, corpora: Sequence[ShardTable], settings: CountedClustering) -> Clusters:
    """Clusters by counts of these corpora, with the recipe by which they were learned."""
    learner, words = WORD_LEARNERS[type(settings)], len(counts.contexts.words)
    with meter("clustering words", learner.steps(words, settings)) as bar:
        table = learner.clusters(counts.pairs, counts.contexts, settings, bar.advance)
    return replace(table, recipe=recipe_of(settings, list(map(texts_digest, corpora))))


def state_clusters(
    corpora: Sequence[ShardTable], settings: StateSettings, encoder: Encoder, running: Workers, text: TextSettings
) -> ClustersOfTokens:
    """Clusters of words by the mean of their states over all their occurrences in corpora, with their recipe.

    Raises as `cluster_counts` does.
    """
    tokens, words = most_frequent(corpora, settings, running, text)
    sums = _summed_states(words, corpora, encoder, running, text)
    with meter("clustering words", None):
        table = clustered([words[number] for number in sums.word.tolist()], sums.means, settings)
    recipe = recipe_of(settings, list(map(texts_digest, corpora)), encoder.files_digest)
    return ClustersOfTokens(replace(table, recipe=recipe), tokens)


def with_words_of(
    corpus: ShardTable,
    clusters: Clusters,
    texts: Sequence[ShardTable],
    settings: StateSettings,
    encoder: Encoder,
    running: Workers,
    text: TextSettings,
) -> Clusters:
    """Clusters of states of the words of ``texts``, with the other words of a corpus in the clusters nearest to them.

    As many words are added at most as the settings say of a whole table. Raises as `cluster_counts` does.
    """
    own_words, recipe = clusters.words.to_pylist(), clusters.recipe
    assert recipe is not None, "clusters of states say how they were learned"
    counts = WordCounts.merge(count_all(running, WORDS, list(corpus), WordsParts(text), title="counting words"))
    others = {word: counts.words[word] for word in counts.words.keys() - set(own_words)}
    words = frequent_words(others, least_count=settings.least_count, most=settings.words, clusters=0)
    extended = replace(clusters, recipe=recipe.model_copy(update={"corpora": (*recipe.corpora, texts_digest(corpus))}))
    if not words:
        return extended
    own = _summed_states(own_words, texts, encoder, running, text)
    more = _summed_states(words, [corpus], encoder, running, text)
    return with_more_words(extended, own.word, own.means, [words[i] for i in more.word.tolist()], more.means)


def _summed_states(
    words: Sequence[str], corpora: Sequence[ShardTable], encoder: Encoder, running: Workers, text: TextSettings
) -> StateSums:
    """The sums of the states of words, by their places among these.

    Sums of shards are added up as they come, since together they would take more memory than there is.
    """
    parts = StatesParts({word: number for number, word in enumerate(words)}, encoder, text)
    shards = [shard for corpus in corpora for shard in corpus]
    times, todo = Counter(shard.id for shard in shards), distinct(shards)
    total, errors = StateSums.merge(()), list[str]()
    with meter("reading by the encoder", sum(shard.rows for shard in todo)) as bar:
        for answer in running.run(STATE_SUMS, todo, parts):
            if answer.result is None:
                errors.append(answer.failure)
                continue
            total = StateSums.merge((total, answer.result.repeated(times[answer.shard.id])))
            bar.advance(answer.shard.rows, note="documents")
    if errors:
        raise ShardsError(failed_message(sorted(errors), len(shards)))
    return total


def texts_digest(shards: ShardTable) -> str:
    """Hex digest of the rows of a corpus, in any order of its shards, whatever is known of corrections."""
    first, last = shards.digests.view(">u8").T
    return hashlib.sha256(shards.digests[np.lexsort((last, first))].tobytes()).hexdigest()
