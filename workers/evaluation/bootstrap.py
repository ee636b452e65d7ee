"""Is one labelling better than another, or was it luck? The paired bootstrap over documents."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from workers.evaluation.named_counts import Counts

_CELLS_AT_ONCE = 4_000_000


class Comparison(NamedTuple):
    """The difference in F1 (a fraction, other − base), its confidence interval and its p-value.

    ``p_value`` is two-sided: how often chance alone would show a difference at least this large.
    """

    difference: float
    low: float
    high: float
    p_value: float


def f1_of_counts(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """(...,) F1 of counts (..., 3) gold, predicted, correct; 0 where there is nothing to find or found."""
    whole = counts[..., 0] + counts[..., 1]
    f1 = np.zeros(whole.shape)
    np.divide(2.0 * counts[..., 2], whole, out=f1, where=whole > 0)
    return f1


def paired_bootstrap(
    base: Counts,
    other: Counts,
    *,
    rng: np.random.Generator,
    draws: int = 1000,
    confidence: float = 0.95,
) -> Comparison:
    """Compares two labellings of the same D documents from counts (D, 3) gold, predicted, correct.

    Documents are drawn with replacement, the same ones for both sides. The interval holds the
    middle ``confidence`` of the drawn differences. The p-value is the share of draws that lie at
    least as far from the observed difference as that lies from 0, with 1 added to both counts, so
    that it is never 0 (Berg-Kirkpatrick et al. 2012 §2, two-sided). Raises `ValueError` on shapes that
    do not pair up, on no documents and on fewer than 1 draw.
    """
    if base.shape != other.shape or base.ndim != 2 or base.shape[1] != 3:
        raise ValueError(f"counts are {base.shape} and {other.shape}, want the same (D, 3) for both")
    if not len(base) or draws < 1:
        raise ValueError(f"a bootstrap needs documents and draws, not {len(base)} and {draws}")
    both = np.concatenate([base, other], axis=1).astype(np.int64)
    observed = _difference(both.sum(axis=0))
    rows = max(1, _CELLS_AT_ONCE // len(base))
    share = np.full(len(base), 1.0 / len(base))
    sizes = [min(rows, draws - done) for done in range(0, draws, rows)]
    drawn = np.concatenate([_difference(rng.multinomial(len(base), share, size) @ both) for size in sizes])
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(drawn, (tail, 1.0 - tail))
    # A difference of 0 must count against itself although the two are computed apart.
    extreme = np.abs(drawn - observed) >= np.abs(observed) - 1e-12
    p_value = (1 + int(extreme.sum())) / (1 + draws)
    return Comparison(float(observed), float(low), float(high), p_value)


def _difference(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """(...,) F1 of the last three columns minus F1 of the first three."""
    return np.asarray(f1_of_counts(counts[..., 3:]) - f1_of_counts(counts[..., :3]))
