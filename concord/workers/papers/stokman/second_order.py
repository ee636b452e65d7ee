"""Viterbi for second-order chains, where the score of a label depends on the two labels before it.

Exact, over pairs of labels: L³ steps a token, where a first-order chain takes L² (such a tagger: Stokman 2011 §3.1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Floats, Ints
from concord.schemas.labels import Labels
from concord.workers.compiling.kernel import inner_in_place, kernel
from concord.workers.inference.core.recursion import BEST, absorb, strongest


class Earlier(NamedTuple):
    """Preceding labels of the M tokens that are not the first of their sentence.

    - ``token`` (M,): the tokens.
    - ``one`` (M,): label of the token before.
    - ``two`` (M,): label of the token two before; L, which stands for the start, for the second token of a sentence.
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

    - ``unary`` (N, L): scores in nats.
    - ``second`` (L + 1, L, L): scores in nats; axes: label two before (index L: the start), label before, label.
    - ``bounds`` (S + 1,): bounds of the sentences.

    −inf forbids. Ties go to the lowest label id, later tokens first; where every path is −inf the labels are arbitrary.
    """
    width, longest = unary.shape[1], int(np.diff(bounds).max(initial=0))
    tables = SecondOrder(
        opening=np.ascontiguousarray(second[width]), into=np.ascontiguousarray(second[:width].transpose(1, 0, 2))
    )
    best: tuple[Labels, Floats] = _best(unary, tables, bounds, np.zeros((longest, width, width)))
    return best


class SecondOrder(NamedTuple):
    """Transition scores in nats, as the recursion reads them.

    - ``opening`` (L, L): of the second label of a sentence (column) after the first (row).
    - ``into`` (L, L, L): axes: label before, label two before, label.
    """

    opening: Floats
    into: Floats


@kernel
def _best(unary: Floats, tables: SecondOrder, bounds: Ints, reached: Floats) -> tuple[Labels, Floats]:
    """Kernel of `best_second_order`: each label of a token has a row of the labels before it, which is one step of the
    recursion.

    - ``reached`` (n, L, L): workspace for the longest sentence, scores up to a token by its label and the one before.
    """
    width = unary.shape[1]
    labels, scores, line = np.zeros(len(unary), np.int32), np.zeros(len(bounds) - 1), np.empty(width)
    for s in range(len(bounds) - 1):
        first, size = bounds[s], bounds[s + 1] - bounds[s]
        for b in range(width):
            for a in range(width):
                # A first token has no label before it: its row is the same for all.
                reached[0, b, a] = unary[first, b]
                if size > 1:
                    reached[1, b, a] = unary[first, a] + tables.opening[a, b] + unary[first + 1, b]
        for t in range(2, size):
            for b in range(width):
                absorb(reached[t - 1, b], tables.into[b], BEST, line)
                for c in range(width):
                    reached[t, c, b] = line[c] + unary[first + t, c]
        scores[s] = _trace(reached, tables.into, labels[first : first + size])
    return labels, scores


@inner_in_place
def _trace(reached: Floats, into: Floats, labels: Labels) -> float:
    """Writes the best ``labels`` (n,) of one sentence and returns its score in nats."""
    width, last = len(into), len(labels) - 1
    here, before = 0, 0
    for b in range(width):
        for a in range(width):
            if reached[last, b, a] > reached[last, here, before]:
                here, before = b, a
    top = float(reached[last, here, before])
    labels[last] = here
    for t in range(last - 1, -1, -1):
        labels[t] = before
        if t == 0:
            break
        here, before = before, strongest(reached[t, before], into[before], here)
    return top
