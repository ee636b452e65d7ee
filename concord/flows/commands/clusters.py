"""Cluster files, made from text or from word vectors: `concord clusters`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from concord.flows.cluster.cluster import cluster
from concord.flows.inputs.apart import check_file_place
from concord.flows.inputs.jobs import folder_place, source_place
from concord.flows.labelling.learned_clusters import cluster_counts, learned_clusters, state_clusters
from concord.flows.screen.progress import meter
from concord.schemas.reports import ClusterReport
from concord.schemas.run_context import HERE, RunContext
from concord.schemas.settings import TextSettings
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import DEFAULT_TEXT
from concord.workers.features.clustering.trees import read_tree
from concord.workers.features.clustering.vectors import read_vectors
from concord.workers.features.clustering.word_clusters import clustered
from concord.workers.features.clusters import Clusters, write_clusters
from concord.workers.features.settings import ClusterSettings, CountedClustering, StateSettings, TreeSettings
from concord.workers.models.encoder import encoder_at


def learn(
    corpora: Sequence[str],
    out: Path,
    settings: CountedClustering,
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
    planned = [plan(source_place(corpus), text=text) for corpus in corpora]
    with cluster(context.ray, workers=context.workers) as running:
        counts = cluster_counts(planned, settings, running, text)
    return _written(learned_clusters(counts, planned, settings), out, tokens=counts.tokens)


def learn_from_states(
    corpora: Sequence[str],
    out: Path,
    encoder: Path,
    settings: StateSettings,
    *,
    text: TextSettings = DEFAULT_TEXT,
    context: RunContext = HERE,
) -> ClusterReport:
    """Clusters of the words of corpora by the states that the encoder of a folder gives them, written to ``out``.

    They do not depend on the number of workers. Raises `ModelError` where there is no encoder, and as `learn`.
    """
    folder_place(str(out))
    check_file_place(out, [*corpora, encoder])
    reader = encoder_at(encoder.expanduser())
    _ = reader.width  # an encoder that cannot be used is told before anything is read
    planned = [plan(source_place(corpus), text=text) for corpus in corpora]
    with cluster(context.ray, workers=context.workers) as running:
        table, tokens = state_clusters(planned, settings, reader, running, text)
    return _written(table, out, tokens=tokens)


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
