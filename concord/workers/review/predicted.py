"""How likely an answer of a run is wrong, by what the run says of itself: the order of a review.

Where there are labelled documents a logistic regression says it (Cox 1958), fitted by Newton's method to the log-odds
of the marginals. A review's promise does not depend on any of this being right.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Floats, Mask

LEAST_ERROR = 1e-12
"""Marginals are kept this far from 0 and 1: their log-odds are finite."""
RIDGE = 1e-3
"""Penalty of the squares of coefficients: without it there is no best fit where no answer is wrong."""
STEPS = 50
"""Most steps of Newton's method, which needs about ten."""
LAST_STEP = 1e-10
"""Largest change of a coefficient in the last step."""


def error_of_marginal(probability: Floats) -> Floats:
    """What the marginals say, of any shape: 1 − p."""
    return 1.0 - probability


def error_of_margin(nats: Floats) -> Floats:
    """What is left for an answer that is worse by so many nats, if these two were all there are: 1 / (1 + exp(m))."""
    return np.exp(-np.logaddexp(0.0, nats))


class LogisticFit(NamedTuple):
    """Predicted error as 1 / (1 + exp(−(a + b·x))), where x are the log-odds of what the run itself predicts."""

    intercept: float
    slope: float

    @classmethod
    def of(cls, predicted: Floats, wrong: Mask) -> LogisticFit:
        """The fit to M answers of which it is known. Raises `ValueError` for none."""
        if not len(predicted):
            raise ValueError("no answers to fit to")
        design = np.stack([np.ones(len(predicted)), _log_odds(predicted)], axis=1)
        weights = np.array([0.0, 1.0])
        for _ in range(STEPS):
            chance = _chance(design @ weights)
            slope = design.T @ (chance - wrong) + RIDGE * weights
            curve = (design.T * (chance * (1 - chance))) @ design + RIDGE * np.eye(2)
            step = np.linalg.solve(curve, slope)
            weights = weights - step * min(1.0, 2.0 / max(float(np.abs(step).max()), LAST_STEP))
            if np.abs(step).max() < LAST_STEP:
                break
        return cls(float(weights[0]), float(weights[1]))

    def error(self, predicted: Floats) -> Floats:
        """The fitted errors, of the same shape."""
        return _chance(self.intercept + self.slope * _log_odds(predicted))


def _log_odds(error: Floats) -> Floats:
    inner = np.clip(error, LEAST_ERROR, 1 - LEAST_ERROR)
    return np.log(inner) - np.log1p(-inner)


def _chance(odds: Floats) -> Floats:
    return np.exp(-np.logaddexp(0.0, -odds))
