"""Names that a layer marks, copied to the other places of their words in the document where it marks nothing."""

from __future__ import annotations

from collections import Counter

import numpy as np

from concord.schemas.arrays import Ids, Ints, Mask
from concord.schemas.document import TOKENS, Batch, Column
from concord.schemas.labels import OUTSIDE
from concord.schemas.layers import NO_ANSWER
from concord.workers.compiling.interpreted import runnable
from concord.workers.compiling.kernel import kernel_in_place

INSIDE = "I-"
"""Beginning of the labels of a layer that continue a span."""
SURE = 2
"""Places at which a layer has to mark words in lower case for them to be copied: one mark on ``of`` is a slip."""


def copied_labels(batch: Batch, answers: Column) -> Column:
    """The labels of a layer (in BIO), with the labels of each name at its other places whose tokens are all outside.

    The longest names come first; of a name with several types the first one counts. Neither names nor places reach over
    the end of a sentence, and the words of both are the same letter by letter. Names in lower case are copied if the
    layer marks them at `SURE` places of the document or more.
    """
    outside = np.array([value == OUTSIDE for value in answers.values], np.bool_)[answers.codes]
    start, width = _names(batch, answers, outside)
    copied = _copied(batch, start, width)
    start, width = start[copied], width[copied]
    longest = np.lexsort((start, -width))
    start, width = start[longest], width[longest]
    words = batch.columns[TOKENS]
    document = np.repeat(np.arange(len(batch)), np.diff(batch.doc_starts))
    key = document * max(1, len(words.values)) + words.codes
    order = np.argsort(key, kind="stable")
    first, last = (np.searchsorted(key[order], key[start], side) for side in ("left", "right"))
    room = np.repeat(batch.sentence_bounds[1:], np.diff(batch.sentence_bounds)) - np.arange(len(key))
    codes = answers.codes.copy()
    runnable(_copy)(words.codes, room, order, start, width, first, last, outside, codes, np.zeros(len(key), np.int64))
    return Column(codes, answers.values)


def _names(batch: Batch, answers: Column, outside: Mask) -> tuple[Ints, Ints]:
    """First token and width of each name that the labels mark, in order."""
    asked = np.array([value != NO_ANSWER for value in answers.values], np.bool_)[answers.codes]
    inside = np.array([value.startswith(INSIDE) for value in answers.values], np.bool_)[answers.codes]
    marked = asked & ~outside
    follows = marked & inside
    follows[1:] &= marked[:-1]
    follows[batch.sentence_starts] = False
    start = np.flatnonzero(marked & ~follows)
    ends = np.flatnonzero(np.append(~follows, True))
    return start, ends[np.searchsorted(ends, start, "right")] - start


def _copied(batch: Batch, start: Ints, width: Ints) -> Mask:
    """The names that are copied: all but those in lower case which their document has too few of."""
    words = batch.columns[TOKENS]
    # A word of a script without case, or a number, is in neither case.
    lower, upper = (
        np.concatenate([[0], np.cumsum(np.array([c(word) for word in words.values], np.int64)[words.codes])])
        for c in (str.islower, lambda word: word != word.lower())
    )
    end = start + width
    small = np.flatnonzero((lower[end] > lower[start]) & (upper[end] == upper[start]))
    document = np.searchsorted(batch.doc_starts, start[small], "right").tolist()
    names = [
        (number, *words.codes[a:b].tolist())
        for number, a, b in zip(document, start[small].tolist(), end[small].tolist(), strict=True)
    ]
    times, copied = Counter(names), np.ones(len(start), np.bool_)
    copied[small] = [times[name] >= SURE for name in names]
    return copied


@kernel_in_place
def _copy(
    words: Ids,
    room: Ints,
    order: Ints,
    start: Ints,
    width: Ints,
    first: Ints,
    last: Ints,
    outside: Mask,
    codes: Ids,
    visited: Ints,
) -> None:
    """Copies ``codes`` (N,) of names to their other places in place.

    - ``room`` (N,): tokens from each token to the end of its sentence.
    - ``order`` (N,): tokens by document and word; a name's first word has order[first:last].
    - ``visited`` (N,): zeros; becomes the width of the last name whose words were found at the token.
    """
    for i in range(len(start)):
        name, size = start[i], width[i]
        if visited[name] == size:
            continue
        for j in range(first[i], last[i]):
            place = order[j]
            if room[place] < size:
                continue
            same, free = True, True
            for k in range(size):
                same = same and words[place + k] == words[name + k]
                free = free and outside[place + k]
            if not same:
                continue
            visited[place] = size
            if free:
                for k in range(size):
                    codes[place + k] = codes[name + k]
                    outside[place + k] = False
