"""Random draws of a Gibbs chain, most of which are decided by a bound before anything is computed.

A site with the labels now (gain 0, weight 1) and other choices c of gain g_c nats, at temperature τ, keeps its labels
with probability 1 / (1 + M), M = Σ_c exp(g_c / τ). If M ≤ B is known, then M / (1 + M) ≤ B / (1 + B), so a uniform draw
U ≥ B / (1 + B) keeps them whatever M is. The labels now own the upper end of [0, 1), so that this is exact: the draw
chooses the same with the bound as without it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
from concord.workers.compiling.kernel import inner_in_place
from concord.workers.inference.sampling.state import STATE

CERTAIN_TEMPERATURES = 40.0
"""Temperatures: a choice that is so far below the labels now is less likely than a 53-bit uniform can show."""

NEGLIGIBLE = np.exp(-CERTAIN_TEMPERATURES)

LARGEST_EXPONENT = 600.0
"""Keeps bounds on weights finite; no draw is above one of this size."""


@inner_in_place
def uniform(counters: NDArray[np.uint64]) -> float:
    """A uniform number in (0, 1): splitmix64 over the chain's own counter."""
    counters[STATE] += np.uint64(0x9E3779B97F4A7C15)
    z = counters[STATE]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (np.float64(z >> np.uint64(11)) + 0.5) / 9007199254740992.0


@inner_in_place
def draw_within(counters: NDArray[np.uint64], exponent: float, choices: int) -> float:
    """A uniform draw in (0, 1), or 2 where the site keeps its labels for certain.

    ``exponent`` bounds g_c / τ of every other choice c: its best local gain, plus all penalties that a change could
    save, which are those of all rows and of the spans at the site, over the temperature. So the other choices
    together have a mass of at most B = (choices − 1) · exp(exponent). Without a draw where B is below what a
    uniform can show; a draw U ≥ B is 2 as well, since B ≥ B / (1 + B).
    """
    if exponent < -CERTAIN_TEMPERATURES:
        return 2.0
    draw = uniform(counters)
    if exponent < 0.0 and draw >= (choices - 1) * np.exp(exponent):
        return 2.0
    return draw


@inner_in_place
def decided(draw: float, mass: float) -> bool:
    """Is ``draw`` ≥ B / (1 + B) for B = ``mass``, so that it keeps the labels now?"""
    return draw * (1.0 + mass) >= mass


@inner_in_place
def weigh(gain: Floats, saved: float, temperature: float, weight: Floats) -> None:
    """Writes exp((gain + saved) / τ): a bound on each option's weight if it saves at most ``saved`` nats."""
    for c in range(len(gain)):
        weight[c] = np.exp(min((gain[c] + saved) / temperature, LARGEST_EXPONENT))


@inner_in_place
def likeliest(weight: Floats, tried: NDArray[np.bool_]) -> int:
    """The option of most weight among those not tried, −1 where all are less likely than a uniform can show."""
    found, most = -1, NEGLIGIBLE
    for c in range(len(weight)):
        if not tried[c] and weight[c] > most:
            found, most = c, weight[c]
    return found


@inner_in_place
def choose(gain: Floats, tried: NDArray[np.bool_], current: int, draw: float, temperature: float) -> int:
    """The option that a draw chooses among those that are tried, the current one included.

    The others own the lower part of [0, 1), so that a draw above the bound on their mass keeps the current one.
    """
    top, mass, reached = gain[current], 0.0, 0.0
    for c in range(len(gain)):
        if tried[c]:
            top = max(top, gain[c])
    for c in range(len(gain)):
        mass += np.exp((gain[c] - top) / temperature) if tried[c] else 0.0
    for c in range(len(gain)):
        if tried[c] and c != current:
            reached += np.exp((gain[c] - top) / temperature) / mass
            if draw < reached:
                return c
    return current
