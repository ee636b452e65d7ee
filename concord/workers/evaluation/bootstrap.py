"""Paired bootstrap over documents: is one labelling significantly better than another?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
from concord.schemas.gains import Comparison
from concord.workers.evaluation.figures import Figure, f1_of_counts
from concord.workers.evaluation.named_counts import Counts

_CELLS_AT_ONCE = 4_000_000


def holm(p_values: Floats) -> Floats:
    """P-values (M,) adjusted for their number: step down from the smallest, Holm (1979)."""
    order = np.argsort(p_values, kind="stable")
    steps = p_values[order] * np.arange(len(p_values), 0, -1)
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return adjusted


def paired_bootstrap(
    base: Counts,
    other: Counts,
    *,
    rng: np.random.Generator,
    draws: int = 1000,
    confidence: float = 0.95,
) -> Comparison:
    """Compares F1 of two labellings of the same D documents from counts (D, 3) gold, predicted, correct.

    As `paired_bootstraps`.
    """
    figures = {"f1": f1_of_counts}
    return paired_bootstraps(base, other, figures, rng=rng, draws=draws, confidence=confidence)["f1"]


def paired_bootstraps(
    base: Counts,
    other: Counts,
    figures: Mapping[str, Figure],
    *,
    rng: np.random.Generator,
    draws: int = 1000,
    confidence: float = 0.95,
) -> dict[str, Comparison]:
    """Compares figures of two labellings of the same D documents from counts (D, ...) that add up over documents.

    Documents are drawn with replacement, the same ones for both sides and all figures. The interval holds the
    middle ``confidence`` of the drawn differences. The p-value is the share of draws that lie at
    least as far from the observed difference as that lies from 0, with 1 added to both counts, so
    that it is never 0 (Berg-Kirkpatrick et al. 2012 §2, two-sided). Raises `ValueError` on shapes that
    do not pair up, on no documents and on fewer than 1 draw.
    """
    if base.shape != other.shape or base.shape[-1] != 3:
        raise ValueError(f"counts are {base.shape} and {other.shape}, want the same (D, ..., 3) for both")
    both = np.stack([base, other], axis=1)
    drawn = drawn_sums(both, rng, draws)
    whole = both.sum(axis=0)
    return {name: _compared(figure, whole, drawn, confidence) for name, figure in figures.items()}


class Interval(NamedTuple):
    """A figure (a fraction) and its confidence interval."""

    value: float
    low: float
    high: float


def bootstrap_interval(
    counts: Counts,
    figure: Figure,
    *,
    rng: np.random.Generator,
    draws: int = 1000,
    confidence: float = 0.95,
) -> Interval:
    """A figure of counts (D, ..., 3) with its interval, as `bootstrap_intervals`."""
    return bootstrap_intervals(counts, {"": figure}, rng=rng, draws=draws, confidence=confidence)[""]


def bootstrap_intervals(
    counts: Counts,
    figures: Mapping[str, Figure],
    *,
    rng: np.random.Generator,
    draws: int = 1000,
    confidence: float = 0.95,
) -> dict[str, Interval]:
    """Figures of counts (D, ..., 3), each with the interval that holds the middle ``confidence`` of its draws.

    Documents are drawn with replacement, the same ones for all figures. Raises `ValueError` on no documents and on
    fewer than 1 draw.
    """
    tail = (1.0 - confidence) / 2.0
    drawn, whole = drawn_sums(counts, rng, draws), counts.sum(axis=0)
    bounds = {name: np.quantile(figure(drawn), (tail, 1.0 - tail)) for name, figure in figures.items()}
    return {name: Interval(float(figures[name](whole)), *map(float, bounds[name])) for name in figures}


def drawn_sums(counts: Counts | Floats, rng: np.random.Generator, draws: int) -> NDArray[np.float64]:
    """Sums (draws, ...) of the counts or figures (D, ...) of as many documents, drawn with replacement.

    Raises `ValueError` on no documents and on fewer than 1 draw.
    """
    if not len(counts) or draws < 1:
        raise ValueError(f"a bootstrap needs documents and draws, not {len(counts)} and {draws}")
    # Counts are far below 2⁵³, so their sums are exact.
    flat = counts.reshape(len(counts), -1).astype(np.float64)
    rows = max(1, _CELLS_AT_ONCE // len(counts))
    share = np.full(len(counts), 1.0 / len(counts))
    sizes = [min(rows, draws - done) for done in range(0, draws, rows)]
    parts = [rng.multinomial(len(counts), share, size).astype(np.float64) @ flat for size in sizes]
    return np.concatenate(parts).reshape(draws, *counts.shape[1:])


def _compared(figure: Figure, whole: NDArray[Any], drawn: NDArray[Any], confidence: float) -> Comparison:
    """``whole`` (2, ...) are the counts of both sides, ``drawn`` (draws, 2, ...) those of the draws."""
    observed = float(figure(whole[1]) - figure(whole[0]))
    differences = figure(drawn[:, 1]) - figure(drawn[:, 0])
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(differences, (tail, 1.0 - tail))
    # A difference of 0 must count against itself although the two are computed apart.
    extreme = np.abs(differences - observed) >= abs(observed) - 1e-12
    p_value = (1 + int(extreme.sum())) / (1 + len(drawn))
    return Comparison(difference=observed, low=float(low), high=float(high), p_value=p_value)
