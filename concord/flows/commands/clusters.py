"""Cluster files, made of vectors or trees of words: `concord clusters`."""

from __future__ import annotations

from pathlib import Path

from concord.flows.inputs.jobs import folder_place
from concord.flows.inputs.output_places import check_file_place
from concord.flows.screen.progress import meter
from concord.schemas.reports import ClusterReport
from concord.workers.features.clustering.trees import read_tree
from concord.workers.features.clustering.vectors import read_vectors
from concord.workers.features.clustering.word_clusters import clustered
from concord.workers.features.clusters import Clusters, write_clusters
from concord.workers.features.settings import ClusterSettings, TreeSettings


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
    return _written(table, out)


def of_tree(source: Path, out: Path, settings: TreeSettings) -> ClusterReport:
    """Clusters by a tree of words that others have learned. Raises `TreeError`, and the errors of writing."""
    folder_place(str(out))
    check_file_place(out, [source])
    with meter("reading the tree", None):
        table = read_tree(source, settings)
    return _written(table, out)


def _written(table: Clusters, out: Path) -> ClusterReport:
    out.parent.mkdir(parents=True, exist_ok=True)
    write_clusters(out, table)
    examples = [_together(table, clustering) for clustering in range(len(table.names))]
    return ClusterReport(words=len(table.words), clusterings=table.names, examples=examples, out=str(out))


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
