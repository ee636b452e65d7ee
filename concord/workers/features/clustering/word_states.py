"""Sums of the states that an encoder gives for words, which add up exactly: whole numbers of a small unit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ints
from concord.schemas.document import Batch
from concord.workers.features.clustering.word_counts import numbered_words

UNITS = 1 << 20
"""Units of a state's number 1. Sums of floats would depend on the order of the shards."""
LARGEST_STATE = 1 << 12
"""Largest number of a state, cut off beyond: sums over a billion words have room in 64 bits."""


@dataclass(frozen=True)
class StateSums:
    """Sums over occurrences of words; sums of parts of a corpus add up.

    - ``word`` (n,): numbers of the words, rising.
    - ``times`` (n,): number of occurrences.
    - ``total`` (n, D): sum of their states, in units.
    """

    documents: int
    rejected: int
    word: Ints
    times: Ints
    total: NDArray[np.int64]

    @classmethod
    def of(
        cls, batch: Batch, states: NDArray[np.float32], numbers: Mapping[str, int], *, rejected: int = 0
    ) -> StateSums:
        """Sums over the words of a batch that have a number; ``states`` (N, D) are of its tokens."""
        words, codes = numbered_words(batch)
        word = np.array([numbers.get(one, -1) for one in words], np.int64)[codes]
        inside = word >= 0
        units = np.rint(np.clip(states[inside].astype(np.float64), -LARGEST_STATE, LARGEST_STATE) * UNITS)
        summed = _summed(word[inside], np.ones(int(inside.sum()), np.int64), units.astype(np.int64))
        return cls(len(batch), rejected, *summed)

    @classmethod
    def merge(cls, parts: Iterable[StateSums]) -> StateSums:
        """The sums of all parts together."""
        every = list(parts)
        documents, rejected = sum(part.documents for part in every), sum(part.rejected for part in every)
        some = [part for part in every if len(part.word)]
        if not some:
            return cls(documents, rejected, np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 0), np.int64))
        word, times, total = (
            np.concatenate([getattr(part, name) for part in some]) for name in ("word", "times", "total")
        )
        return cls(documents, rejected, *_summed(word, times, total))

    def repeated(self, times: int) -> StateSums:
        """The sums of so many equal parts."""
        return StateSums(
            self.documents * times, self.rejected * times, self.word, self.times * times, self.total * times
        )

    @property
    def means(self) -> Floats:
        """(n, D) mean state of each word."""
        mean: Floats = self.total / (self.times[:, None] * UNITS)
        return mean


def _summed(word: Ints, times: Ints, total: NDArray[np.int64]) -> tuple[Ints, Ints, NDArray[np.int64]]:
    """Each word once, rising, with the sums of its rows."""
    order = np.argsort(word, kind="stable")
    word = word[order]
    first = np.flatnonzero(np.diff(word, prepend=-1))
    if not len(first):
        return word, times, total
    return word[first], np.add.reduceat(times[order], first), np.add.reduceat(total[order], first, axis=0)
