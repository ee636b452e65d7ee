"""From predicted label n-grams to a weighted constraint satisfaction problem: Canisius et al. (2011) §5.

The class predicted for a token names the labels of n tokens around it. That and every shorter run of labels in it is a
constraint; its weight is the share of the token's neighbourhood whose class has the same labels at those tokens. Equal
constraints from different tokens are one, of their summed weight. What lies beyond the sentence is in no constraint.

Unigrams go into the unary scores. A longer one, of labels l_1 … l_m from token t on, is kept where all of its edges
e_i = 1[y_{t+i−1} = l_i ∧ y_{t+i} = l_{i+1}] are, and with c_k = 1[y_{t+k} = l_{k+1}]

    1 − Π_i e_i = (1 − e_1) + Σ_{k=2}^{m−1} max(0, Σ_{i<k} e_i − (k − 2) − c_k),

each term the degree of a row: at most one of them is 1, that of the first label that departs. A term depends on the
first labels alone, so n-grams that begin alike share rows, and a row weighs what all of them weigh. What is missed is
charged, not what is kept rewarded, so that weights are never negative; scores are less by the sum of all weights.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ints
from concord.schemas.labels import Labels, LabelSet, Scheme
from concord.schemas.problem import ANY, LinearRows
from concord.workers.models.memory.neighbourhoods import Neighbourhoods


class Grams(NamedTuple):
    """G runs of labels that begin at tokens ``start`` (G,), with ``labels`` (G, n), −1 after the last, and what each
    weighs (G,); ordered, none twice."""

    start: Ints
    labels: Ints
    weight: Floats

    @property
    def length(self) -> Ints:
        """(G,) labels of each."""
        length: Ints = (self.labels >= 0).sum(axis=1)
        return length

    def chosen(self, which: NDArray[np.bool_] | slice) -> Grams:
        """Some of them."""
        return Grams(self.start[which], self.labels[which], self.weight[which])


class GroundNgrams(NamedTuple):
    """What n-grams come to: unary scores (N, L), −inf for what is no candidate, and the n-grams of several labels that
    not all choices of candidates keep."""

    unary: Floats
    grams: Grams


def predicted_grams(found: Neighbourhoods, classes: Ints, bounds: Ints) -> Grams:
    """Every constraint of the tokens (N,) that ``found`` is of.

    ``classes`` (C, n) are the labels of each class, −1 beyond the sentence, the token's own at n // 2; ``bounds``
    (S + 1,) are those of sentences.
    """
    n = classes.shape[1]
    mine, first, token = classes[found.predicted], -(n // 2), np.arange(len(found.pointer) - 1)
    lengths = np.diff(bounds)
    begins, ends = np.repeat(bounds[:-1], lengths), np.repeat(bounds[1:], lengths)
    parts = []
    for low in range(n):
        for high in range(low + 1, n + 1):
            start = token + first + low
            there = (start >= begins) & (start + high - low <= ends) & (mine[:, low:high] >= 0).all(axis=1)
            labels = np.full((len(token), n), -1)
            labels[:, : high - low] = mine[:, low:high]
            weight = _agreeing(found, classes, low, high)
            parts.append(Grams(start[there], labels[there], weight[there]))
    return summed(parts)


def _agreeing(found: Neighbourhoods, classes: Ints, low: int, high: int) -> Floats:
    """(N,) the share of each neighbourhood with the labels of the predicted class at these places."""
    part = np.unique(classes[:, low:high], axis=0, return_inverse=True)[1].ravel()
    alike = part[found.classes] == part[found.predicted][found.instance]
    weight: Floats = np.bincount(found.instance, found.share * alike, len(found.pointer) - 1).astype(np.float64)
    return weight


def summed(parts: list[Grams]) -> Grams:
    """All of them, equal ones as one of their summed weight."""
    start, labels, weight = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    cells, place = np.unique(np.column_stack([start, labels]), axis=0, return_inverse=True)
    return Grams(cells[:, 0], cells[:, 1:], np.bincount(place.ravel(), weight, len(cells)).astype(np.float64))


def neighbour_grams(found: Neighbourhoods, classes: Ints) -> Grams:
    """Unigrams of all labels that the neighbours of a token have, each with their share; predicted or not."""
    n = classes.shape[1]
    own = np.full((len(found.classes), n), -1)
    own[:, 0] = classes[found.classes, n // 2]
    return summed([Grams(found.instance, own, found.share)])


def ground(grams: Grams, count: int, labels: LabelSet, *, legal: bool) -> GroundNgrams:
    """Of ``count`` tokens. Where the result is to be ``legal`` B- is a candidate beside each I-, so that it can be."""
    single = grams.length == 1
    unary, domain = np.zeros((count, len(labels))), np.zeros((count, len(labels)), np.bool_)
    at = grams.start[single], grams.labels[single, 0]
    unary[at], domain[at] = grams.weight[single], True
    if legal and labels.scheme is not Scheme.PLAIN:
        domain[:, labels.opening] |= domain[:, labels.inside]
    several = grams.chosen(~single)
    return GroundNgrams(np.where(domain, unary, -np.inf), several.chosen(~_always(several, domain)))


def _always(grams: Grams, domain: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(G,) is every label of it the token's only candidate?"""
    only = domain.sum(axis=1) == 1
    places = grams.start[:, None] + np.arange(grams.labels.shape[1])
    inside = grams.labels >= 0
    always: NDArray[np.bool_] = (only[np.where(inside, places, 0)] | ~inside).all(axis=1)
    return always


def rows_of(grams: Grams, doc_starts: Ints) -> list[LinearRows]:
    """The rows of each document, in the order of their first tokens; constraint 0 of its own."""
    width = grams.labels.shape[1]
    prefixes = []
    for size in range(2, width + 1):
        longer = grams.chosen(grams.length >= size)
        labels = longer.labels.copy()
        labels[:, size:] = -1
        prefixes.append(longer._replace(labels=labels))
    rows = summed(prefixes) if prefixes else grams
    cuts = np.searchsorted(rows.start, doc_starts)
    return [
        _laid_out(rows.chosen(slice(low, high)), int(first))
        for low, high, first in zip(cuts[:-1], cuts[1:], doc_starts, strict=False)
    ]


def _laid_out(grams: Grams, first: int) -> LinearRows:
    """A row for each: of m labels its first m − 2 edges less its last label, or 1 less the one edge there is."""
    length, start = grams.length, grams.start - first
    sizes = length - 1
    pointer = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    row = np.repeat(np.arange(len(length)), sizes)
    step = np.arange(pointer[-1]) - pointer[row] + 1
    is_last = step == sizes[row]
    token_label = is_last & (length[row] > 2)
    return LinearRows(
        pointer,
        (start[row] + step).astype(np.int32),
        np.where(token_label, ANY, grams.labels[row, step - 1]).astype(np.int32),
        grams.labels[row, step].astype(np.int32),
        np.where(is_last, -1.0, 1.0),
        (length - 3).astype(np.float64),
        grams.weight,
        np.zeros(len(length), np.int32),
    )


def voted(found: Neighbourhoods, classes: Ints, bounds: Ints, labels: int) -> Labels:
    """(N,) the label that most of the predicted classes over a token name (Van den Bosch & Daelemans 2006).

    Ties go to what the surest of them names.
    """
    n, count = classes.shape[1], len(found.pointer) - 1
    mine, token = classes[found.predicted], np.arange(count)
    sure = found.share[found.pointer[:-1]]
    begins, ends = (np.repeat(side, np.diff(bounds)) for side in (bounds[:-1], bounds[1:]))
    votes, surest = np.zeros((count, labels)), np.zeros((count, labels))
    for place in range(n):
        at = token + place - n // 2
        there = (at >= begins) & (at < ends) & (mine[:, place] >= 0)
        cell = at[there], mine[there, place]
        np.add.at(votes, cell, 1.0)
        np.maximum.at(surest, cell, sure[there])
    best: Labels = (votes + surest / 2.0).argmax(axis=1).astype(np.int32)
    return best
