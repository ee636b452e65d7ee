"""Cluster files, made from text or from word vectors: `concord clusters`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from concord.flows.cluster.cluster import cluster
from concord.flows.cluster.counting import count_all
from concord.flows.inputs.jobs import folder_place, source_place
from concord.flows.inputs.output_places import check_file_place
from concord.flows.screen.progress import meter
from concord.schemas.reports import ClusterReport
from concord.schemas.run_context import HERE, RunContext
from concord.schemas.settings import TextSettings
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import DEFAULT_TEXT
from concord.workers.features.clustering.clark import clark_clusters
from concord.workers.features.clustering.trees import read_tree
from concord.workers.features.clustering.vectors import read_vectors
from concord.workers.features.clustering.word_clusters import clustered, frequent_words
from concord.workers.features.clustering.word_counts import ContextCounts, WordCounts
from concord.workers.features.clustering.word_pairs import bigrams_of
from concord.workers.features.clusters import Clusters, write_clusters
from concord.workers.features.settings import ClarkSettings, ClusterSettings, TreeSettings
from concord.workers.remote.words import CONTEXTS, WORDS, ContextsParts, WordsParts


def learn(
    corpora: Sequence[str],
    out: Path,
    settings: ClarkSettings,
    *,
    text: TextSettings = DEFAULT_TEXT,
    context: RunContext = HERE,
) -> ClusterReport:
    """Clusters of the words of corpora (labelled or not) by their neighbours and letters, written to the file ``out``.

    They do not depend on the number of workers. Every shard is read twice: for its words, then for the neighbours of
    the frequent ones. Raises `ShardsError` if a shard failed, `FewWordsError` if there are too few words,
    `ClusterError`, and the errors of reading a corpus and writing a file.
    """
    folder_place(str(out))
    check_file_place(out, corpora)
    shards = [shard for corpus in corpora for shard in plan(source_place(corpus), text=text)]
    with cluster(context.ray, workers=context.workers) as running:
        counts = WordCounts.merge(count_all(running, WORDS, shards, WordsParts(text), title="counting words"))
        words = frequent_words(
            counts.words, least_count=settings.least_count, most=settings.words, clusters=max(settings.clusters)
        )
        contexts = bigrams_of(words)
        pairs = count_all(running, CONTEXTS, shards, ContextsParts(contexts, text), title="counting contexts")
    with meter("clustering words", settings.iterations * len(settings.clusters)) as bar:
        table = clark_clusters(ContextCounts.merge(pairs), contexts, settings, bar.advance)
    return _written(table, out, tokens=counts.tokens)


def imported(source: Path, out: Path, settings: ClusterSettings, *, words: Path | None = None) -> ClusterReport:
    """Clusters of the words of a file of vectors; ``words``: file of the words of an array.

    Raises `VectorError`, `FewWordsError`, and the errors of writing.
    """
    folder_place(str(out))
    check_file_place(out, [source, source.with_suffix(".txt"), words])
    with meter("reading vectors", None):
        read = read_vectors(source, settings.words, words=words)
    with meter("clustering", None):
        table = clustered(read.words, read.points, settings)
    return _written(table, out, tokens=0)


def of_tree(source: Path, out: Path, settings: TreeSettings) -> ClusterReport:
    """Clusters by a tree of words that others have learned. Raises `TreeError`, and the errors of writing."""
    folder_place(str(out))
    check_file_place(out, [source])
    with meter("reading the tree", None):
        table = read_tree(source, settings)
    return _written(table, out, tokens=0)


def _written(table: Clusters, out: Path, *, tokens: int) -> ClusterReport:
    out.parent.mkdir(parents=True, exist_ok=True)
    write_clusters(out, table)
    examples = [_together(table, clustering) for clustering in range(len(table.names))]
    return ClusterReport(
        tokens=tokens, words=len(table.words), clusterings=table.names, examples=examples, out=str(out)
    )


def _together(table: Clusters, clustering: int) -> list[str]:
    """Most frequent words of an example cluster: the one whose tenth word is the most frequent."""
    codes = table.codes[:, clustering].tolist()
    seen: dict[int, list[str]] = {}
    for code, word in zip(codes, table.words.to_pylist(), strict=True):
        mine = seen.setdefault(code, [])
        mine.append(word)
        if len(mine) == 10 and all(w[:1].isalpha() for w in mine):
            return mine
    return max(seen.values(), key=len)[:10]
