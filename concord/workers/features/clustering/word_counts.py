"""Counts that word clusters are learned from: occurrences of words, and of contexts of the frequent words.

A context of a word is a frequent word, or the edge of the sentence, at one of the places near it. No library for
clustering is imported here, since every worker of a run imports all tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Ints
from concord.schemas.document import TOKENS, Batch
from concord.workers.features.clusters import zeros


@dataclass(frozen=True)
class WordCounts:
    """Number of occurrences of each word, with its digits as 0. Counts of parts of a corpus add up."""

    documents: int
    rejected: int
    words: dict[str, int]
    """In the order of their letters."""

    @classmethod
    def of(cls, batch: Batch, *, rejected: int = 0) -> WordCounts:
        """Counts over all documents of a batch."""
        words, codes = numbered_words(batch)
        times = np.bincount(codes, minlength=len(words)).tolist()
        return cls(len(batch), rejected, dict(sorted(zip(words, times, strict=True))))

    @classmethod
    def merge(cls, parts: Iterable[WordCounts]) -> WordCounts:
        """The counts of all parts together."""
        total, documents, rejected = Counter[str](), 0, 0
        for part in parts:
            documents, rejected = documents + part.documents, rejected + part.rejected
            total.update(part.words)
        return cls(documents, rejected, dict(sorted(total.items())))

    @property
    def tokens(self) -> int:
        """Number of tokens: the sum over all words."""
        return sum(self.words.values())


def numbered_words(batch: Batch) -> tuple[list[str], NDArray[np.int64]]:
    """The distinct words of a batch with digits as 0, and which of them each token is (N,)."""
    column = batch.columns[TOKENS]
    used, place = np.unique(column.codes, return_inverse=True)
    numbers: dict[str, int] = {}
    ids = [numbers.setdefault(zeros(column.values[i]), len(numbers)) for i in used.tolist()]
    return list(numbers), np.array(ids, np.int64)[place]


@dataclass(frozen=True)
class ContextCounts:
    """How often pairs of a word and a context occur; ``pair`` (n,) are their numbers, rising, ``times`` (n,)."""

    documents: int
    rejected: int
    pair: Ints
    times: Ints

    @classmethod
    def merge(cls, parts: Iterable[ContextCounts]) -> ContextCounts:
        """The counts of all parts together."""
        given = list(parts)
        pair, times = _summed(
            np.concatenate([np.zeros(0, np.int64), *(part.pair for part in given)]),
            np.concatenate([np.zeros(0, np.int64), *(part.times for part in given)]),
        )
        return cls(sum(p.documents for p in given), sum(p.rejected for p in given), pair, times)


def _summed(pair: Ints, times: Ints) -> tuple[Ints, Ints]:
    """Each pair once, rising, with the sum of its times."""
    order = np.argsort(pair, kind="stable")
    pair, times = pair[order], times[order]
    first = np.flatnonzero(np.diff(pair, prepend=-1))
    return pair[first], np.add.reduceat(times, first) if len(first) else times


@dataclass(frozen=True)
class Contexts:
    """Pairs of one of V words and one of P · (C + 1) contexts: a frequent word or the sentence's edge at a place."""

    words: Sequence[str]
    contexts: int
    places: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the table of counts."""
        return len(self.words), len(self.places) * (self.contexts + 1)

    def count(self, batch: Batch, *, rejected: int = 0) -> ContextCounts:
        """Counts of each word and context in the documents of a batch; a pair's number is w · P · (C + 1) + context."""
        words, codes = numbered_words(batch)
        number = np.array([self._number.get(word, -1) for word in words], np.int64)
        pair, times = self._pairs(number[codes], batch.sentence_starts)
        return ContextCounts(len(batch), rejected, pair, times)

    @cached_property
    def _number(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    def _pairs(self, words: Ints, starts: Ints) -> tuple[Ints, Ints]:
        sentence = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(words))))
        keys = [self._keys(words, sentence, nth, place) for nth, place in enumerate(self.places)]
        pair, times = np.unique(np.concatenate(keys), return_counts=True)
        return pair, times.astype(np.int64)

    def _keys(self, words: Ints, sentence: Ints, nth: int, place: int) -> Ints:
        """The pairs of all words and what is at one place from them, as numbers."""
        here = np.arange(len(words))
        there = np.clip(here + place, 0, max(0, len(words) - 1))
        inside = (there == here + place) & (sentence[there] == sentence[here])
        context = np.where(inside, words[there], self.contexts)
        # A word that is in no cluster, or too rare to be a context, says nothing.
        counts = (words >= 0) & (~inside | ((context >= 0) & (context < self.contexts)))
        keys: Ints = (words * self.shape[1] + nth * (self.contexts + 1) + context)[counts]
        return keys
