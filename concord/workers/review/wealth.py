"""Betting against "more than ε of these are wrong", while they are read one by one in random order.

Waudby-Smith & Ramdas, "Confidence sequences for sampling without replacement" (NeurIPS 2020), and "Estimating means
of bounded random variables by betting" (2024), section 5. Of N things K are wrong, and the claim that is bet against is
K > εN, which for whole numbers is K ≥ k with k = ⌊εN⌋ + 1. Before the t-th answer, with S wrong ones so far, the claim
says that the next one is wrong with a probability of at least

    m_t = (k − S) / (N − t + 1)

and a bet that it is wrong with probability p < m_t multiplies the wealth by p/m_t if it is wrong, and by
(1 − p)/(1 − m_t) if it is right. Under the claim the wealth is a non-negative supermartingale that begins at 1, and so
is the mean over several p. By Ville's inequality it ever reaches 1/α with a probability of at most α. The promise "at
most ε are wrong" may therefore be given at any time at which the wealth has reached 1/α, however often one looks.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from concord.schemas.arrays import Floats, Ints, Mask

GRID = np.concatenate([[0.0], np.geomspace(1 / 32, 15 / 16, 15)])
"""Error rates that are bet on, as shares of the limit ε."""
WEALTH_ROUNDING = 1e-9
"""Logarithm of the wealth that may be missing for reasons of rounding; α is as much larger, which is nothing."""


def least_refused(size: int, error: float) -> int:
    """k: the least number of wrong ones among ``size`` that is more than the share ``error``; exact for decimals."""
    return math.floor(Fraction(repr(error)) * size) + 1


def wealth_path(wrong: Mask, size: int, refused: int) -> Floats:
    """Natural logarithms of the wealth after each of T answers (T,).

    - ``wrong`` (T,): the answers in the order of the draw, T ≤ ``size``
    - ``size``: N, of how many things they are drawn
    - ``refused``: k, the least number of wrong ones that a promise excludes

    Infinite from the answer on after which fewer than k can be wrong, and −∞ once k are. Raises `ValueError` for more
    answers than things.
    """
    answers = len(wrong)
    if answers > size:
        raise ValueError(f"{answers} answers about {size} things")
    if refused > size:
        return np.full(answers, np.inf)
    before: Ints = np.cumsum(wrong, dtype=np.int64) - wrong
    remaining = size - np.arange(answers)
    chance = np.minimum((refused - before) / remaining, 1.0)
    rates = (GRID * (refused - 1) / size)[:, None]
    bets = (rates < chance) & (chance < 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        at_wrong = np.log(rates) - np.log(chance)
        at_right = np.log1p(-rates) - np.log1p(-chance)
    steps = np.where(bets, np.where(wrong, at_wrong, at_right), 0.0)
    path = _log_mean(_running(steps))
    wrong_so_far, read = before + wrong, np.arange(1, answers + 1)
    path[refused - wrong_so_far > size - read] = np.inf
    path[wrong_so_far >= refused] = -np.inf
    return path


def _running(steps: Floats) -> Floats:
    """Sums along a row; one that has lost all stays at −∞, whatever follows."""
    lost = np.maximum.accumulate(np.isneginf(steps), axis=1)
    sums: Floats = np.where(lost, -np.inf, np.cumsum(np.where(lost, 0.0, steps), axis=1))
    return sums


def _log_mean(rows: Floats) -> Floats:
    """Logarithm of the mean of exponentials over the rows."""
    top = rows.max(axis=0, initial=-np.inf)
    finite = np.isfinite(top)
    safe = np.where(finite, top, 0.0)
    with np.errstate(divide="ignore"):
        means: Floats = np.where(finite, safe + np.log(np.mean(np.exp(rows - safe), axis=0)), top)
    return means


def promised_at(wrong: Mask, size: int, refused: int, alpha: float) -> int | None:
    """Number of answers after which the promise could first be given; None if not yet.

    0 where it needs none, as nothing that is excluded is possible.
    """
    if refused > size:
        return 0
    reached = wealth_path(wrong, size, refused) >= -math.log(alpha) - WEALTH_ROUNDING
    return int(reached.argmax()) + 1 if reached.any() else None
