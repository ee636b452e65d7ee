"""How sure answers are said to be, beside how often they are right."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Floats, Ints, Mask

PROBABILITY_BINS = 10
LEAST = 1e-6
"""Least probability that an answer is taken to have of being right, or wrong: the log loss stays finite."""


class Surety(NamedTuple):
    """Probabilities of answers to be right, beside what they were.

    - ``calibration_error``: expected calibration error over `PROBABILITY_BINS` bins of equal width (Guo et al. 2017):
      the mean of the differences between the mean probability in a bin and the share that is right, weighted by
      numbers.
    - ``log_loss``: mean of −log p(what the answer was, right or wrong), in nats.
    """

    calibration_error: float
    log_loss: float


def surety(probability: Floats, right: Mask) -> Surety:
    """Figures of M answers, of ``probability`` (M,) to be ``right`` (M,); 0 for no answers."""
    if not len(right):
        return Surety(0.0, 0.0)
    clipped = np.clip(probability, LEAST, 1.0 - LEAST)
    loss = -np.where(right, np.log(clipped), np.log1p(-clipped)).mean()
    # The difference of the means of a bin, times its number, is the difference of the sums.
    place = bin_of(probability)
    differences = np.bincount(place, probability, PROBABILITY_BINS) - np.bincount(place, right, PROBABILITY_BINS)
    return Surety(float(np.abs(differences).sum()) / len(right), float(loss))


def bin_of(probability: Floats) -> Ints:
    """(M,) bin of each probability."""
    bins: Ints = np.minimum((probability * PROBABILITY_BINS).astype(np.int64), PROBABILITY_BINS - 1)
    return bins
