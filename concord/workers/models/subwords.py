"""Sub-words of a neural tagger and the words of a sentence: windows that are short enough, and scores of words.

A tagger reads a sentence as sub-words of its own tokenizer and has room for a number of them at once. A longer sentence
is read in windows that overlap; a sub-word that two windows have takes its scores from the one in which it stands
farther from the cut, since there the tagger sees more around it. No sub-word is left out.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ints
from concord.schemas.document import TokenizedText

Pooling = Literal["first", "mean"]
Logits = NDArray[np.float32]


class SubwordWindow(NamedTuple):
    """Sub-words ``first`` to ``last`` (exclusive) are read together; those from ``begin`` to ``end`` take their scores
    from there."""

    first: int
    last: int
    begin: int
    end: int


def windows(count: int, room: int, overlap: int) -> list[SubwordWindow]:
    """Windows of at most ``room`` sub-words over ``count`` of them, neighbours with ``overlap`` < room in common."""
    if count <= room:
        return [SubwordWindow(0, count, 0, count)]
    step = room - overlap
    starts = [*range(0, count - room, step), count - room]
    cuts = [(a + room + b) // 2 for a, b in pairwise(starts)]
    bounds = zip(starts, [0, *cuts], [*cuts, count], strict=True)
    return [SubwordWindow(first, first + room, begin, end) for first, begin, end in bounds]


def pooled(rows: Logits, start: Ints, end: Ints, sentence: TokenizedText, pooling: Pooling) -> Floats:
    """(n, W) numbers of the words of a sentence, from those (T, W) of its sub-words.

    - ``start``, ``end`` (T,): characters of each sub-word in the sentence's text.
    - ``pooling``: a word takes the numbers of its first sub-word, or the mean of those of all.

    A sub-word belongs to the words whose characters it has. A word without any, such as a character that the network's
    tokenizer drops, has zeros: as logits, they give every label the same score, and its neighbours decide.
    """
    table = np.zeros((len(sentence.start), rows.shape[1]), np.float64)
    left = start + np.array(
        [
            len(sentence.content[a:b]) - len(sentence.content[a:b].lstrip())
            for a, b in zip(start.tolist(), end.tolist(), strict=True)
        ],
        np.int64,
    )
    first = np.searchsorted(sentence.end, left, side="right")
    last = np.searchsorted(sentence.start, end, side="left")
    owned: list[list[int]] = [[] for _ in sentence.start]
    for t in np.flatnonzero(left < end).tolist():
        for word in range(int(first[t]), int(last[t])):
            owned[word].append(t)
    for word, own in enumerate(owned):
        if own:
            table[word] = rows[own[0]] if pooling == "first" else rows[own].astype(np.float64).mean(axis=0)
    return table


def log_softmax(table: Floats) -> Logits:
    """(n, W) log-probabilities of logits."""
    shifted = table - table.max(axis=1, keepdims=True)
    scores: Logits = (shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))).astype(np.float32)
    return scores
