"""Word clusters from unlabelled text: positive pointwise mutual information, truncated SVD, and k-means.

A context of a word is a frequent word, or the edge of the sentence, at one of the four places nearest to it. With p the
shares of counts, and those of contexts raised to 3/4 so that rare ones do not stand out (Levy, Goldberg & Dagan 2015),

    M[w, c] = max(0, log p(w, c) / (p(w) · p(c))) ≈ U · S · Vᵀ,

and a word's vector is its row of U · √S at length 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse
from sklearn.cluster import MiniBatchKMeans
from sklearn.utils.extmath import randomized_svd

from schemas.document import TOKENS, Batch
from schemas.errors import InputError
from schemas.potentials import Floats
from schemas.settings import ClusterSettings, CoOccurrenceSettings
from workers.features.clusters import Clusters, zeros

PLACES = (-2, -1, 1, 2)
SMOOTHING = 0.75
ROUNDS = 60
"""Of k-means, at most."""
SAMPLE = 4096
"""Words a step of k-means."""


class FewWordsError(InputError):
    """Text with too few words to be put into so many clusters."""


class Part(NamedTuple):
    """Some sentences: ``words`` (N,) as numbers in a `Text`'s vocabulary, ``sentence_starts`` (S,)."""

    words: NDArray[np.int32]
    sentence_starts: NDArray[np.int64]


class Text:
    """Text as numbers of its words, digits as 0: 4 bytes a token, so that it is read and tokenised once."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.tokens = 0
        self._numbers: dict[str, int] = {}

    def add(self, batch: Batch) -> None:
        """Appends all documents of a batch."""
        column = batch.columns[TOKENS]
        numbers = [self._numbers.setdefault(zeros(word), len(self._numbers)) for word in column.values]
        words = np.array(numbers, np.int32)[column.codes] if numbers else np.zeros(0, np.int32)
        self.parts.append(Part(words, batch.sentence_starts))
        self.tokens += len(words)

    @property
    def words(self) -> list[str]:
        """The vocabulary, by number."""
        return list(self._numbers)

    def counts(self) -> Counter[str]:
        """How often each word occurs."""
        total = np.zeros(len(self._numbers), np.int64)
        for part in self.parts:
            total += np.bincount(part.words, minlength=len(total))
        return Counter({word: count for word, count in zip(self._numbers, total.tolist(), strict=True) if count})


def frequent_words(counts: Counter[str], settings: CoOccurrenceSettings) -> list[str]:
    """The words that get clusters, the most frequent first, equals in the order of their letters.

    Raises `FewWordsError` where they are fewer than the clusters.
    """
    words = [word for word, count in counts.items() if count >= settings.least_count]
    words.sort(key=lambda word: (-counts[word], word))
    return _enough(words[: settings.words], settings)


def _enough(words: list[str], settings: ClusterSettings) -> list[str]:
    if len(words) < max(settings.clusters):
        raise FewWordsError(
            f"there are {len(words)} words for {max(settings.clusters)} clusters; give more text, or fewer --clusters"
        )
    return words


@dataclass(frozen=True)
class Contexts:
    """Pairs of one of V words and one of 4 · (C + 1) contexts: a frequent word or the sentence's edge at a place."""

    words: Sequence[str]
    contexts: int

    @property
    def shape(self) -> tuple[int, int]:
        """Of the table of counts."""
        return len(self.words), len(PLACES) * (self.contexts + 1)

    def count(self, text: Text) -> sparse.csr_array:
        """(V, 4 · (C + 1)) how often each word has each context in the text."""
        known = {word: i for i, word in enumerate(self.words)}
        number = np.array([known.get(word, -1) for word in text.words], np.int64)
        pairs = sparse.csr_array(self.shape, dtype=np.int64)
        for part in text.parts:
            pairs = pairs + self._pairs(number[part.words], part.sentence_starts)
        return pairs

    def _pairs(self, words: NDArray[np.int64], starts: NDArray[np.int64]) -> sparse.csr_array:
        sentence = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(words))))
        keys = [self._keys(words, sentence, nth, place) for nth, place in enumerate(PLACES)]
        key, times = np.unique(np.concatenate(keys), return_counts=True)
        at = (key // self.shape[1], key % self.shape[1])
        return sparse.csr_array((times, at), shape=self.shape, dtype=np.int64)

    def _keys(self, words: NDArray[np.int64], sentence: NDArray[np.int64], nth: int, place: int) -> NDArray[np.int64]:
        """The pairs of all words and what is at one place from them, as numbers."""
        here = np.arange(len(words))
        there = np.clip(here + place, 0, max(0, len(words) - 1))
        inside = (there == here + place) & (sentence[there] == sentence[here])
        context = np.where(inside, words[there], self.contexts)
        # A word that is in no cluster, or too rare to be a context, says nothing.
        counts = (words >= 0) & (~inside | ((context >= 0) & (context < self.contexts)))
        keys: NDArray[np.int64] = (words * self.shape[1] + nth * (self.contexts + 1) + context)[counts]
        return keys


def contexts_of(words: Sequence[str], settings: CoOccurrenceSettings) -> Contexts:
    """What is counted for these words, the most frequent first."""
    return Contexts(words, min(settings.contexts, len(words)))


def vectors(counts: sparse.csr_array, settings: CoOccurrenceSettings) -> Floats:
    """(V, d) the words' vectors, of length 1 or, without a context that says anything, 0."""
    pairs = counts.tocoo()
    word = np.asarray(counts.sum(axis=1)).ravel()
    context = np.asarray(counts.sum(axis=0)).ravel() ** SMOOTHING
    information = np.log(pairs.data / word[pairs.row] / (context[pairs.col] / context.sum()))
    keep = information > 0
    table = sparse.csr_array((information[keep], (pairs.row[keep], pairs.col[keep])), shape=counts.shape)
    size = min(settings.dimensions, min(table.shape) - 1)
    left, weight, _ = randomized_svd(table, size, n_iter=3, random_state=settings.seed)
    found: Floats = left * np.sqrt(weight)
    return found


def clustered(words: Sequence[str], points: Floats, settings: ClusterSettings) -> Clusters:
    """The clusterings of words by their vectors (V, d), of whose direction alone is looked at.

    Raises `FewWordsError` where there are fewer words than clusters.
    """
    _enough(list(words), settings)
    length = np.linalg.norm(points, axis=1, keepdims=True)
    unit = np.divide(points, length, out=np.zeros_like(points), where=length > 0)
    codes = [_k_means(unit, size, settings.seed) for size in settings.clusters]
    return Clusters(pa.array(words, pa.string()), tuple(map(str, settings.clusters)), np.stack(codes, axis=1))


def _k_means(points: Floats, size: int, seed: int) -> NDArray[np.int32]:
    learner = MiniBatchKMeans(size, random_state=seed, n_init=1, batch_size=SAMPLE, max_iter=ROUNDS)
    codes: NDArray[np.int32] = learner.fit(points).labels_.astype(np.int32)
    return codes
