"""From predicted label n-grams to a weighted constraint satisfaction problem: Canisius et al. (2011) §5.

The class predicted for a token is an n-gram: the labels of n tokens around it. The n-gram and every shorter run of
labels in it is a constraint. The weight of a constraint is the share of the token's neighbourhood whose classes have
the same labels at those tokens. Equal constraints from different tokens become one with their summed weight. Labels
beyond the sentence are in no constraint.

Constraints of one label (unigrams) go into the unary scores. One of labels l_1 … l_m from token t on is satisfied where
all of its edges e_i = 1[y_{t+i−1} = l_i ∧ y_{t+i} = l_{i+1}] are 1, and with c_k = 1[y_{t+k} = l_{k+1}]

    1 − Π_i e_i = (1 − e_1) + Σ_{k=2}^{m−1} max(0, Σ_{i<k} e_i − (k − 2) − c_k).

Each term is the degree of a row; at most one of them is 1, that of the first label that departs. A term depends only on
the first labels, so n-grams with a common beginning share rows, and a row has the summed weight of all of them. A
violated constraint is charged instead of a satisfied one being rewarded, so that weights are never negative; this
lowers every score by the sum of all weights.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ints
from concord.schemas.labels import Labels, LabelSet, Scheme
from concord.schemas.problem import ANY, LinearRows
from concord.workers.papers.canisius.neighbourhoods import Neighbourhoods


class Grams(NamedTuple):
    """G weighted label n-grams, sorted, each of them once.

    - ``start`` (G,): first token of each.
    - ``labels`` (G, n): its labels, then −1.
    - ``weight`` (G,): its weight.
    """

    start: Ints
    labels: Ints
    weight: Floats

    @property
    def length(self) -> Ints:
        """(G,) number of labels of each n-gram."""
        length: Ints = (self.labels >= 0).sum(axis=1)
        return length

    def chosen(self, which: NDArray[np.bool_] | slice) -> Grams:
        """The n-grams that a mask or slice selects."""
        return Grams(self.start[which], self.labels[which], self.weight[which])


class GroundNgrams(NamedTuple):
    """N-grams as parts of a constraint satisfaction problem.

    - ``unary`` (N, L): weights of the unigrams; −inf for a label that is no candidate of its token.
    - ``grams``: n-grams of several labels, without those that every choice of candidates satisfies.
    """

    unary: Floats
    grams: Grams


def predicted_grams(near: Neighbourhoods, classes: Ints, bounds: Ints) -> Grams:
    """All constraints that the predicted classes of N tokens make.

    - ``near``: neighbourhoods of the tokens.
    - ``classes`` (C, n): labels of each class, −1 beyond the sentence; the token's own label is at n // 2.
    - ``bounds`` (S + 1,): bounds of the sentences.
    """
    n = classes.shape[1]
    mine, first, token = classes[near.predicted], -(n // 2), np.arange(len(near.pointer) - 1)
    lengths = np.diff(bounds)
    begins, ends = np.repeat(bounds[:-1], lengths), np.repeat(bounds[1:], lengths)
    parts = []
    for low in range(n):
        for high in range(low + 1, n + 1):
            start = token + first + low
            there = (start >= begins) & (start + high - low <= ends) & (mine[:, low:high] >= 0).all(axis=1)
            labels = np.full((len(token), n), -1)
            labels[:, : high - low] = mine[:, low:high]
            weight = _agreeing(near, classes, low, high)
            parts.append(Grams(start[there], labels[there], weight[there]))
    return summed(parts)


def _agreeing(near: Neighbourhoods, classes: Ints, low: int, high: int) -> Floats:
    """(N,) share of each neighbourhood that has the predicted class's labels at the places low:high of the n-gram."""
    part = np.unique(classes[:, low:high], axis=0, return_inverse=True)[1].ravel()
    alike = part[near.classes] == part[near.predicted][near.instance]
    weight: Floats = np.bincount(near.instance, near.share * alike, len(near.pointer) - 1).astype(np.float64)
    return weight


def summed(parts: list[Grams]) -> Grams:
    """Union of n-grams; equal ones become one with their summed weight."""
    start, labels, weight = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    cells, place = np.unique(np.column_stack([start, labels]), axis=0, return_inverse=True)
    return Grams(cells[:, 0], cells[:, 1:], np.bincount(place.ravel(), weight, len(cells)).astype(np.float64))


def neighbour_grams(near: Neighbourhoods, classes: Ints) -> Grams:
    """Unigrams of all labels among a token's neighbours, predicted or not, each weighted by its share."""
    n = classes.shape[1]
    own = np.full((len(near.classes), n), -1)
    own[:, 0] = classes[near.classes, n // 2]
    return summed([Grams(near.instance, own, near.share)])


def ground(grams: Grams, count: int, labels: LabelSet, *, legal: bool) -> GroundNgrams:
    """Grounds the n-grams of ``count`` tokens.

    Where the result has to be ``legal``, B- becomes a candidate wherever I- is one, so that a legal labelling exists.
    """
    single = grams.length == 1
    unary, domain = np.zeros((count, len(labels))), np.zeros((count, len(labels)), np.bool_)
    at = grams.start[single], grams.labels[single, 0]
    unary[at], domain[at] = grams.weight[single], True
    if legal and labels.scheme is not Scheme.PLAIN:
        domain[:, labels.opening] |= domain[:, labels.inside]
    several = grams.chosen(~single)
    return GroundNgrams(np.where(domain, unary, -np.inf), several.chosen(~_always(several, domain)))


def _always(grams: Grams, domain: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(G,) mask of the n-grams whose every label is its token's only candidate; ``domain`` (N, L) marks candidates."""
    only = domain.sum(axis=1) == 1
    places = grams.start[:, None] + np.arange(grams.labels.shape[1])
    inside = grams.labels >= 0
    always: NDArray[np.bool_] = (only[np.where(inside, places, 0)] | ~inside).all(axis=1)
    return always


def rows_of(grams: Grams, doc_starts: Ints) -> list[LinearRows]:
    """Rows of each document, sorted by first token; all have constraint number 0."""
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
    """One row for each n-gram of m labels, with tokens counted from ``first``.

    For m > 2: the sum of the first m − 2 edges minus the last label, at most m − 3. For m = 2: minus the only edge, at
    most −1.
    """
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


def voted(near: Neighbourhoods, classes: Ints, bounds: Ints, labels: int) -> Labels:
    """(N,) majority label of the predicted n-grams that overlap at each token (Van den Bosch & Daelemans 2006).

    Ties go to the label of the n-gram with the largest share.
    """
    n, count = classes.shape[1], len(near.pointer) - 1
    mine, token = classes[near.predicted], np.arange(count)
    sure = near.share[near.pointer[:-1]]
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
