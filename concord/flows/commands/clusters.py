"""Cluster files, made from text or from word vectors: `concord clusters`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from concord.flows.cluster.cluster import Cluster, cluster
from concord.flows.cluster.counting import count_all
from concord.flows.inputs.apart import check_file_place
from concord.flows.inputs.jobs import folder_place, source_place
from concord.flows.screen.progress import meter
from concord.schemas.reports import ClusterReport
from concord.schemas.run_context import HERE, RunContext
from concord.schemas.settings import TextSettings
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import DEFAULT_TEXT
from concord.workers.features.clustering.brown import brown_clusters
from concord.workers.features.clustering.clark import clark_clusters
from concord.workers.features.clustering.vectors import read_vectors
from concord.workers.features.clustering.word_clusters import clustered, frequent_words, vectors
from concord.workers.features.clustering.word_counts import ContextCounts, Contexts, WordCounts, contexts_of
from concord.workers.features.clustering.word_pairs import bigrams_of
from concord.workers.features.clusters import Clusters, write_clusters
from concord.workers.features.settings import BrownSettings, ClarkSettings, ClusterSettings, CoOccurrenceSettings
from concord.workers.remote.words import CONTEXTS, WORDS, ContextsParts, WordsParts

LearningSettings = CoOccurrenceSettings | BrownSettings | ClarkSettings


class _WordLearner(NamedTuple):
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


LEARNERS: Mapping[type[LearningSettings], _WordLearner] = MappingProxyType(
    {
        CoOccurrenceSettings: _WordLearner(contexts_of, lambda _words, _settings: None, _by_directions),
        BrownSettings: _WordLearner(
            lambda words, _settings: bigrams_of(words), lambda words, _settings: words, brown_clusters
        ),
        ClarkSettings: _WordLearner(
            lambda words, _settings: bigrams_of(words),
            lambda _words, settings: settings.iterations * len(settings.clusters),
            clark_clusters,
        ),
    }
)
"""By the class of their settings."""


def learn(
    corpora: Sequence[str],
    out: Path,
    settings: LearningSettings,
    *,
    text: TextSettings = DEFAULT_TEXT,
    context: RunContext = HERE,
) -> ClusterReport:
    """Clusters of the words of corpora (labelled or not) by their neighbours, written to the file ``out``.

    They do not depend on the number of workers. Every shard is read twice: for its words, then for the neighbours of
    the frequent ones. Raises `ShardsError` if a shard failed, `FewWordsError` if there are too few words,
    `ClusterError`, and the errors of reading a corpus and writing a file.
    """
    folder_place(str(out))
    check_file_place(out, corpora)
    with cluster(context.ray, workers=context.workers) as running:
        counted = _counted(corpora, running, text, settings)
    learner = LEARNERS[type(settings)]
    with meter("clustering words", learner.steps(len(counted.contexts.words), settings)) as bar:
        found = learner.clusters(counted.pairs, counted.contexts, settings, bar.advance)
    return _written(found, out, tokens=counted.tokens)


class _ClusterCounts(NamedTuple):
    """Counts of corpora.

    - ``tokens``: number of tokens read.
    - ``contexts``: the frequent words, and the contexts that are counted.
    - ``pairs``: number of occurrences of each word in each context.
    """

    tokens: int
    contexts: Contexts
    pairs: ContextCounts


def _counted(
    corpora: Sequence[str], running: Cluster, text: TextSettings, settings: LearningSettings
) -> _ClusterCounts:
    shards = [shard for corpus in corpora for shard in plan(source_place(corpus), text=text)]
    counts = WordCounts.merge(count_all(running, WORDS, shards, WordsParts(text), title="counting words"))
    words = frequent_words(
        counts.words, least_count=settings.least_count, most=settings.words, clusters=settings.most_clusters
    )
    contexts = LEARNERS[type(settings)].contexts(words, settings)
    parts = ContextsParts(contexts, text)
    pairs = count_all(running, CONTEXTS, shards, parts, title="counting contexts")
    return _ClusterCounts(counts.tokens, contexts, ContextCounts.merge(pairs))


def imported(source: Path, out: Path, settings: ClusterSettings, *, words: Path | None = None) -> ClusterReport:
    """Clusters of the words of a file of vectors; ``words``: file of the words of an array.

    Raises `VectorError`, `FewWordsError`, and the errors of writing.
    """
    folder_place(str(out))
    check_file_place(out, [source, source.with_suffix(".txt"), words])
    with meter("reading vectors", None):
        read = read_vectors(source, settings.words, words=words)
    with meter("clustering", None):
        found = clustered(read.words, read.points, settings)
    return _written(found, out, tokens=0)


def _written(found: Clusters, out: Path, *, tokens: int) -> ClusterReport:
    out.parent.mkdir(parents=True, exist_ok=True)
    write_clusters(out, found)
    examples = [_together(found, clustering) for clustering in range(len(found.names))]
    return ClusterReport(
        tokens=tokens, words=len(found.words), clusterings=found.names, examples=examples, out=str(out)
    )


def _together(found: Clusters, clustering: int) -> list[str]:
    """Most frequent words of an example cluster: the one whose tenth word is the most frequent."""
    codes = found.codes[:, clustering].tolist()
    seen: dict[int, list[str]] = {}
    for code, word in zip(codes, found.words.to_pylist(), strict=True):
        mine = seen.setdefault(code, [])
        mine.append(word)
        if len(mine) == 10 and all(w[:1].isalpha() for w in mine):
            return mine
    return max(seen.values(), key=len)[:10]
