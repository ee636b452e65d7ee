"""Figures (precision, recall, F1, overlap) computed from counts, for any number of documents and draws at once.

Counts have the shape (..., R, 3): for each of R names the numbers of gold items, of predicted ones, and of items in
both. A fraction of nothing is 0, as in conlleval.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Figure = Callable[[NDArray[Any]], NDArray[np.float64]]
"""Counts (..., R, 3) → fractions (...)."""

GOLD, PREDICTED, CORRECT = range(3)


def precision(counts: NDArray[Any]) -> NDArray[np.float64]:
    """correct ÷ predicted, all names together (Fersini 2014 eq. 31, Stokman 2011 eq. 68)."""
    return _share(_of(counts, CORRECT), _of(counts, PREDICTED))


def recall(counts: NDArray[Any]) -> NDArray[np.float64]:
    """correct ÷ gold, all names together (Fersini eq. 32, Stokman eq. 69).

    Where every item has one gold and one predicted name this is the accuracy (Fersini eq. 34).
    """
    return _share(_of(counts, CORRECT), _of(counts, GOLD))


def f1(counts: NDArray[Any]) -> NDArray[np.float64]:
    """The harmonic mean of both: 2 correct ÷ (gold + predicted) (Fersini eq. 33, Stokman eq. 70)."""
    return _share(2.0 * _of(counts, CORRECT), _of(counts, GOLD) + _of(counts, PREDICTED))


def overlap(counts: NDArray[Any]) -> NDArray[np.float64]:
    """|found ∩ gold| ÷ |found ∪ gold|, all names together (Stokman §5.1)."""
    correct = _of(counts, CORRECT)
    return _share(correct, _of(counts, GOLD) + _of(counts, PREDICTED) - correct)


def macro(figure: Figure) -> Figure:
    """The plain mean of a figure over the names that gold has; 0 where it has none."""

    def mean(counts: NDArray[Any]) -> NDArray[np.float64]:
        there = counts[..., GOLD] > 0
        each = figure(counts[..., None, :])
        return _share((each * there).sum(axis=-1), there.sum(axis=-1))

    return mean


def f1_of_counts(counts: NDArray[Any]) -> NDArray[np.float64]:
    """(...,) F1 of counts (..., 3) without names."""
    return f1(counts[..., None, :])


FIGURES: dict[str, Figure] = {
    "accuracy": recall,
    "overlap": overlap,
    "precision": precision,
    "recall": recall,
    "f1": f1,
    "macro_precision": macro(precision),
    "macro_recall": macro(recall),
    "macro_f1": macro(f1),
}
"""Every figure by name."""


def _of(counts: NDArray[Any], kind: int) -> NDArray[Any]:
    return np.asarray(counts[..., kind].sum(axis=-1))


def _share(part: NDArray[Any], whole: NDArray[Any]) -> NDArray[np.float64]:
    share = np.zeros(np.broadcast(part, whole).shape)
    np.divide(part, whole, out=share, where=whole > 0)
    return share
