"""Viterbi for second-order chains, where the score of a label depends on the two labels before it.

Exact, over pairs of labels: L³ steps a token, where a first-order chain takes L² (such a tagger: Stokman 2011 §3.1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Floats, Ints
from concord.schemas.labels import Labels
from concord.workers.compiling.kernel import kernel


class Earlier(NamedTuple):
    """Preceding labels of the M tokens that are not the first of their sentence.

    ``token`` (M,): the tokens
    ``one`` (M,): label of the token before
    ``two`` (M,): label of the token two before; L, which stands for the start, for the second token of a sentence
    """

    token: Ints
    one: Ints
    two: Ints


def earlier(labels: Labels, bounds: Ints, width: int) -> Earlier:
    """Preceding labels in sentences with ``bounds`` (S + 1,); the labels (N,) are below ``width``, which is L."""
    is_first = np.zeros(len(labels), np.bool_)
    is_first[bounds[:-1]] = True
    token = np.flatnonzero(~is_first)
    ids = labels.astype(np.int64)
    return Earlier(token, ids[token - 1], np.where(is_first[token - 1], width, ids[token - 2]))


def best_second_order(unary: Floats, second: Floats, bounds: Ints) -> tuple[Labels, Floats]:
    """Best labels (N,) of all sentences, and the score (S,) of each sentence in nats.

    ``unary`` (N, L): scores in nats
    ``second`` (L + 1, L, L): scores in nats; axes: label two before (index L: the start), label before, label
    ``bounds`` (S + 1,): bounds of the sentences

    −inf forbids. Ties go to the lowest label id, later tokens first; where every path is −inf the labels are arbitrary.
    """
    width, longest = unary.shape[1], int(np.diff(bounds).max(initial=0))
    into = np.ascontiguousarray(second[:width].transpose(1, 2, 0))
    back = np.zeros((longest, width, width), np.int32)
    found: tuple[Labels, Floats] = _best(unary, np.ascontiguousarray(second[width]), into, bounds, back)
    return found


@kernel
def _best(unary: Floats, opening: Floats, into: Floats, bounds: Ints, back: Labels) -> tuple[Labels, Floats]:
    """Kernel of `best_second_order`: ``into[b, c, a]`` is the score of label c after a and b; ``back`` is a workspace
    for the longest sentence."""
    width = unary.shape[1]
    labels, scores = np.zeros(len(unary), np.int32), np.zeros(len(bounds) - 1)
    now, before = np.empty((width, width)), np.empty((width, width))
    for s in range(len(bounds) - 1):
        first, end = bounds[s], bounds[s + 1]
        # Where there is one token alone, a row stands for nothing before it.
        for a in range(width):
            for b in range(width):
                if end - first > 1:
                    now[a, b] = unary[first, a] + opening[a, b] + unary[first + 1, b]
                else:
                    now[a, b] = unary[first, b]
        for t in range(first + 2, end):
            now, before = before, now
            for b in range(width):
                for c in range(width):
                    best, source = before[0, b] + into[b, c, 0], 0
                    for a in range(1, width):
                        value = before[a, b] + into[b, c, a]
                        if value > best:
                            best, source = value, a
                    now[b, c] = best + unary[t, c]
                    back[t - first, b, c] = source
        one, here = 0, 0
        for b in range(width):
            for a in range(width):
                if now[a, b] > now[one, here]:
                    one, here = a, b
        scores[s] = now[one, here]
        labels[end - 1] = here
        for t in range(end - 1, first, -1):
            labels[t - 1] = one
            if t > first + 1:
                here, one = one, back[t - first, one, here]
    return labels, scores
