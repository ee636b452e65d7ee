"""The control chart: is a difference between two nights more than chance and the usual ups and downs of nights?

Each figure of a night becomes one score z, in three steps.

1. *An exact p-value*, whatever the figure's distribution and however few documents there are. Of new documents and
   others it is that of the hypergeometric law (Fisher's exact test), for the share of documents above each of a few
   quantiles of both together; of other answers to the same documents that of the sign test. Documents are the units,
   not tokens, which are not independent of each other.
2. *The score* z is the normal quantile of that p-value, with the sign of the difference.
3. *Overdispersion*: nights differ by more than their documents do by chance, since what comes in a night belongs
   together. Let n be the night's size (the harmonic one of both groups); the variance of z is taken to be 1 + n·τ²,
   where τ² is estimated by moments from earlier nights, Σ(z²−1) / Σn, as DerSimonian & Laird (1986) do for studies and
   Laney (2002) for control charts. What z comes to then is read off Student's law with degrees of freedom by
   Satterthwaite (1946): infinitely many where earlier nights show no more than chance.

The p-values of a night are adjusted for all its figures (Holm 1979), and a figure is beyond its threshold at
`BREACH_LEVEL`. Where documents are exchangeable, then, the chance of one or more false alarms in `NIGHTS` nights is at
most `FALSE_ALARMS`, however the figures depend on each other (Bonferroni). Where nights differ more than that, it is so
as far as the differences of nights are normal; `benchmarks/bench_drift.py` measures both.

`scipy.stats` takes half a second to import; who only reads the record of nights does not wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Floats

FALSE_ALARMS = 0.05
"""Largest chance of a false alarm in `NIGHTS` nights."""

NIGHTS = 365
"""Nights within which false alarms are bounded."""

BREACH_LEVEL = FALSE_ALARMS / NIGHTS
"""Adjusted p-value at which a figure is beyond its threshold."""

LEAST_EFFECT = 0.1
"""Smallest difference that is told as drift, in standard deviations of documents: with many documents the least is
significant."""

EARLIER_NIGHTS = 60
"""Earlier nights from which their differences are estimated."""

QUANTILES = (0.05, 0.2, 0.5, 0.8, 0.95)
"""Quantiles of all documents above which they are counted."""

LEAST_P = 1e-300
"""Smaller p-values are this."""


class NightScore(NamedTuple):
    """A figure of a night against the last night.

    - ``z``: normal score of its exact p-value, positive for a rise
    - ``size``: documents that it rests on, the harmonic number of both groups
    """

    z: float
    size: float


def rise(new: Floats, others: Floats) -> NightScore:
    """Scores how far a figure of new documents (n,) rose above that of others (m,); n and m are at least 1."""
    from scipy import stats

    both = np.concatenate([new, others])
    cuts = np.unique(np.quantile(both, QUANTILES, method="inverted_cdf"))
    above = (both[:, None] > cuts).sum(axis=0)
    cuts, above = cuts[above > 0], above[above > 0]
    size = len(new) * len(others) / len(both)
    if not len(cuts):
        return NightScore(0.0, size)
    mine = (new[:, None] > cuts).sum(axis=0)
    law = stats.hypergeom(len(both), above, len(new))
    return NightScore(_score(law.sf(mine - 1).min(), law.cdf(mine).min(), tries=len(cuts)), size)


def paired_rise(before: Floats, after: Floats) -> NightScore:
    """Scores a figure of the same documents (n,) before and after, by how many of those that moved rose."""
    from scipy import stats

    rose, fell = int((after > before).sum()), int((after < before).sum())
    law = stats.binom(rose + fell, 0.5)
    return NightScore(_score(law.sf(rose - 1), law.cdf(rose), tries=1), float(rose + fell))


def _score(above: float, below: float, *, tries: int) -> float:
    """The normal score of the smaller of two tails, each the smallest of so many tries."""
    from scipy import stats

    p = max(2 * tries * min(above, below), LEAST_P)
    if p >= 1.0:
        return 0.0
    return float(stats.norm.isf(p / 2)) * (1.0 if above < below else -1.0)


def p_value(score: NightScore, earlier: Sequence[NightScore]) -> float:
    """Two-sided p-value of a night's score, given those of the same figure in earlier nights, oldest first."""
    from scipy import stats

    used = [other for other in earlier[-EARLIER_NIGHTS:] if other.size > 0]
    spread = 0.0
    if used:
        spread = max(0.0, sum(other.z**2 - 1 for other in used) / sum(other.size for other in used))
    excess = score.size * spread
    if not excess:
        return float(2 * stats.norm.sf(abs(score.z)))
    freedom = len(used) * ((1 + excess) / excess) ** 2
    return float(2 * stats.t.sf(abs(score.z) / np.sqrt(1 + excess), freedom))


def effect(before: Floats, after: Floats) -> float:
    """Difference of the means of a figure, in standard deviations of all documents together."""
    spread = np.concatenate([before, after]).std()
    return float((after.mean() - before.mean()) / spread) if spread > 0 else 0.0
