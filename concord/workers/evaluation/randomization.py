"""Approximate randomization: is the best of many labellings significantly better than a base?

If a labelling is no better than the base, it does not matter from which of the two a document's answer comes. So the
answers of documents are swapped at random (Noreen 1989; Yeh 2000 for F1), for the same documents in all labellings. The
largest gain among the labellings is what luck gives to one who picks the best (Westfall & Young 1993, single step).
This correction for many labellings costs next to nothing where they are nearly the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from concord.schemas.arrays import Floats
from concord.workers.evaluation.figures import Figure
from concord.workers.evaluation.named_counts import Counts


def chances_of_best(
    base: Counts, others: Sequence[Counts], figure: Figure, *, rng: np.random.Generator, draws: int = 2_000
) -> Floats:
    """Adjusted p-values (M,): how likely the best of all M gains by luck as much as each labelling does; never 0.


    Counts are (D, R, 3) of the same D documents. Raises `ValueError` on no draws and on shapes that do not pair up.
    """
    if draws < 1 or any(other.shape != base.shape for other in others):
        raise ValueError(f"want a draw at least and counts {base.shape}, not {draws} and {[o.shape for o in others]}")
    swapped = rng.integers(0, 2, size=(draws, len(base))).astype(np.float64)
    before = base.sum(axis=0)
    most, gains = np.full(draws, -np.inf), list[float]()
    for other in others:
        after, change = other.sum(axis=0), (other - base).reshape(len(base), -1)
        # Counts are far below 2⁵³, so their sums are exact.
        moved = (swapped @ change).reshape(draws, *before.shape)
        most = np.maximum(most, figure(after - moved) - figure(before + moved))
        gains.append(float(figure(after) - figure(before)))
    # A gain must count against itself although the two are computed apart.
    return np.array([(1 + int((most >= gain - 1e-12).sum())) / (1 + draws) for gain in gains])
