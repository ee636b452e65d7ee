"""Occurrences of words in a corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
