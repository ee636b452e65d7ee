"""Counts of pairs of a frequent word and the word directly after it: what classes of words are learned from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import sparse

from concord.schemas.arrays import Ints
from concord.workers.features.clustering.word_counts import ContextCounts, Contexts

NEXT_WORD = (1,)
"""Offset of the context words that are counted: the next word."""


class Bigrams(NamedTuple):
    """Sparse bigram counts of V words.

    - ``start`` (V + 1,): the entries of word w are k in start[w]:start[w + 1].
    - ``word``, ``times``: word w stands times[k] times beside word[k].
    """

    start: Ints
    word: Ints
    times: Ints


def bigrams_of(words: Sequence[str]) -> Contexts:
    """Contexts to count for classes of words: for each of these, most frequent first, which of them comes next."""
    return Contexts(words, len(words), NEXT_WORD)


def bigrams(table: sparse.csr_array) -> Bigrams:
    """Sparse bigram counts of a table (V, V)."""
    table.sort_indices()
    return Bigrams(table.indptr.astype(np.int64), table.indices.astype(np.int64), table.data)


def bigram_tables(counts: ContextCounts, contexts: Contexts) -> tuple[Bigrams, Bigrams]:
    """The words after each word, and those before it; ends of sentences are left out."""
    size = len(contexts.words)
    first, second = counts.pair // contexts.shape[1], counts.pair % contexts.shape[1]
    inside = second < size
    table = sparse.csr_array(
        (counts.times[inside], (first[inside], second[inside])), shape=(size, size), dtype=np.int64
    )
    return bigrams(table), bigrams(table.T.tocsr())
