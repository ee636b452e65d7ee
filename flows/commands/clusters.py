"""Making cluster files: from text, or from word vectors that others have learned."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from flows.jobs import folder_place
from flows.progress import meter
from schemas.reports import ClusterReport
from schemas.settings import ClusterSettings, CoOccurrenceSettings
from workers.corpus.plan import plan
from workers.corpus.shards import read_batch
from workers.features.clusters import Clusters, write_clusters
from workers.learning.vectors import read_vectors
from workers.learning.word_clusters import Text, clustered, contexts_of, frequent_words, vectors


def learn(corpora: Sequence[str], out: Path, settings: CoOccurrenceSettings) -> ClusterReport:
    """Clusters the words of corpora, labelled or not, by what stands around them.

    Raises `FewWordsError` where there are too few words, and what reading a corpus and writing a file raise.
    """
    folder_place(str(out))
    shards, text = [shard for corpus in corpora for shard in plan(corpus)], Text()
    with meter("reading", sum(shard.rows for shard in shards)) as bar:
        for shard in shards:
            text.add(read_batch(shard)[0])
            bar.advance(shard.rows, note=f"documents, {text.tokens:,} tokens")
    words = frequent_words(text.counts(), settings)
    with meter("clustering", None):
        pairs = contexts_of(words, settings).count(text)
        found = clustered(words, vectors(pairs, settings), settings)
    return _written(found, out, tokens=text.tokens)


def imported(source: Path, out: Path, settings: ClusterSettings) -> ClusterReport:
    """Clusters the words of a file of vectors. Raises `VectorError`, `FewWordsError`, and what writing raises."""
    folder_place(str(out))
    with meter("reading vectors", None):
        words, points = read_vectors(source, settings.words)
    with meter("clustering", None):
        found = clustered(words, points, settings)
    return _written(found, out, tokens=0)


def _written(found: Clusters, out: Path, *, tokens: int) -> ClusterReport:
    out.parent.mkdir(parents=True, exist_ok=True)
    write_clusters(out, found)
    examples = [_together(found, clustering) for clustering in range(len(found.names))]
    return ClusterReport(
        tokens=tokens, words=len(found.words), clusterings=found.names, examples=examples, out=str(out)
    )


def _together(found: Clusters, clustering: int) -> list[str]:
    """The most frequent words of the cluster whose tenth word is the most frequent: one that says something."""
    codes = found.codes[:, clustering].tolist()
    seen: dict[int, list[str]] = {}
    for code, word in zip(codes, found.words.to_pylist(), strict=True):
        mine = seen.setdefault(code, [])
        mine.append(word)
        if len(mine) == 10 and all(w[:1].isalpha() for w in mine):
            return mine
    return max(seen.values(), key=len)[:10]
