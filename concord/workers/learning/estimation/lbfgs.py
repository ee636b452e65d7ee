"""L-BFGS minimisation of a smooth objective: Nocedal (1980), with the line search of Lewis & Overton (2013).

A library is not used for two reasons: its sums come from BLAS and depend on the number of threads, and with millions of
coordinates the bookkeeping of a bounded method adds half the cost of the objective.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Floats
from concord.workers.compiling.kernel import kernel_in_place

LossAndGradient = Callable[[Floats], tuple[float, Floats]]

MEMORY = 6
"""Pairs of differences kept to approximate the curvature, as in CRFsuite."""
DECREASE, CURVATURE = 1e-4, 0.9
"""Constants of the weak Wolfe conditions: least decrease, and largest remaining slope, as fractions of the slope."""
MOST_TRIALS = 30
"""Step lengths tried in one line search: ten doublings are a factor of a thousand."""
PERIOD = 10
"""Iterations over which the decrease is measured."""


class LbfgsStep(NamedTuple):
    """The point (n,) that an iteration reached, with the objective's value and gradient (n,) there."""

    point: Floats
    value: float
    gradient: Floats


class Limits(NamedTuple):
    """Stopping rules; the first that is met ends the minimisation.

    - ``iterations``: so many iterations are done.
    - ``gradient``: ‖gradient‖ / max(1, ‖point‖) is at most this.
    - ``decrease``: the relative decrease over `PERIOD` iterations is below this.
    """

    iterations: int
    gradient: float = 1e-5
    decrease: float = 1e-5


def minimise(function: LossAndGradient, start: Floats, limits: Limits) -> Iterator[LbfgsStep]:
    """Iterates of the minimisation, with ``start`` (n,) as the first one.

    Ends at the limits, or if the line search finds no step. Keeps 2 · `MEMORY` + 5 vectors of n numbers. The steps are
    the same for any number of threads.
    """
    here = LbfgsStep(start, *function(start))
    yield here
    pairs: deque[_StepChange] = deque(maxlen=MEMORY)
    values: deque[float] = deque([here.value], maxlen=PERIOD + 1)
    for _ in range(limits.iterations):
        if _norm(here.gradient) <= limits.gradient * max(1.0, _norm(here.point)):
            return
        there = _step(function, here, _direction(here.gradient, pairs))
        if there is None:
            return
        yield there
        pairs.append(_StepChange.of(here, there))
        here = there
        values.append(here.value)
        if len(values) > PERIOD and values[0] - values[-1] < limits.decrease * abs(values[-1]):
            return


class _StepChange(NamedTuple):
    """Change of the point (n,) and of the gradient (n,) in one step, and the inverse of their dot product."""

    point: Floats
    gradient: Floats
    inverse: float

    @classmethod
    def of(cls, here: LbfgsStep, there: LbfgsStep) -> _StepChange:
        point, gradient = there.point - here.point, there.gradient - here.gradient
        return cls(point, gradient, 1.0 / dot(point, gradient))


def _direction(gradient: Floats, pairs: deque[_StepChange]) -> Floats:
    """Search direction −H · gradient by the two-loop recursion; the pairs define the inverse curvature H."""
    direction = -gradient
    if not pairs:
        return direction / max(1.0, _norm(gradient))
    shares = []
    for pair in reversed(pairs):
        shares.append(pair.inverse * dot(pair.point, direction))
        add(-shares[-1], pair.gradient, direction)
    last = pairs[-1]
    direction *= 1.0 / (last.inverse * dot(last.gradient, last.gradient))
    for pair, share in zip(pairs, reversed(shares), strict=True):
        add(share - pair.inverse * dot(pair.gradient, direction), pair.point, direction)
    return direction


def _step(function: LossAndGradient, here: LbfgsStep, direction: Floats) -> LbfgsStep | None:
    """A step that meets both Wolfe conditions, found by doubling and bisection; None if none was found."""
    slope = dot(here.gradient, direction)
    low, high, length = 0.0, math.inf, 1.0
    for _ in range(MOST_TRIALS):
        point = here.point.copy()
        add(length, direction, point)
        there = LbfgsStep(point, *function(point))
        if not there.value <= here.value + DECREASE * length * slope:
            high = length
        elif dot(there.gradient, direction) < CURVATURE * slope:
            low = length
        else:
            return there
        length = 2.0 * low if math.isinf(high) else (low + high) / 2.0
    return None


def _norm(vector: Floats) -> float:
    return math.sqrt(dot(vector, vector))


def dot(one: Floats, other: Floats) -> float:
    """Dot product, summed in an order that does not depend on the number of threads."""
    return float(np.einsum("i,i->", one, other))


@kernel_in_place
def add(factor: float, vector: Floats, out: Floats) -> None:
    """Adds factor · vector to out (n,)."""
    for i in range(len(vector)):
        out[i] += factor * vector[i]
