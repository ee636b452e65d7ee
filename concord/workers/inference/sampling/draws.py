"""Random draws of a Gibbs chain; a bound decides most of them before any weight is computed.

A site keeps its labels (gain 0, weight 1) against other choices c with a gain of g_c nats, at temperature τ, with
probability 1 / (1 + M), where M = Σ_c exp(g_c / τ). If M ≤ B is known, then M / (1 + M) ≤ B / (1 + B), so a uniform
draw U ≥ B / (1 + B) keeps the labels, whatever M is. The present labels own the upper end of [0, 1), which makes this
exact: a draw chooses the same with the bound as without it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Records
from concord.workers.compiling.kernel import inner_in_place

CERTAIN_TEMPERATURES = 40.0
"""Loss, in temperatures, from which a choice is taken as impossible: a 53-bit uniform cannot show its probability."""

NEGLIGIBLE = np.exp(-CERTAIN_TEMPERATURES)

LARGEST_EXPONENT = 600.0
"""Largest exponent of a bound on weights, so that it stays finite; no draw is above a bound of this size."""


@inner_in_place
def uniform(now: Records) -> float:
    """A uniform number in (0, 1), by splitmix64 over the chain's own counter."""
    now[0].random += np.uint64(0x9E3779B97F4A7C15)
    z = now[0].random
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (np.float64(z >> np.uint64(11)) + 0.5) / 9007199254740992.0


@inner_in_place
def draw_within(now: Records, exponent: float, choices: int) -> float:
    """A uniform draw in (0, 1), or 2 if the site keeps its labels for certain.

    ``exponent`` is an upper bound on g_c / τ of every other choice c: the best local gain at the site, plus the
    penalties that a change could save (those of all rows and of the spans at the site), over the temperature. So the
    total weight of the other choices is at most B = (choices − 1) · exp(exponent). If B is smaller than a uniform can
    show, nothing is drawn. A draw U ≥ B also returns 2, since B ≥ B / (1 + B).
    """
    if exponent < -CERTAIN_TEMPERATURES:
        return 2.0
    draw = uniform(now)
    if exponent < 0.0 and draw >= (choices - 1) * np.exp(exponent):
        return 2.0
    return draw


@inner_in_place
def decided(draw: float, mass: float) -> bool:
    """Does ``draw`` keep the present labels, because it is at least B / (1 + B) for B = ``mass``?"""
    return draw * (1.0 + mass) >= mass


@inner_in_place
def weigh(gain: Floats, saved: float, temperature: float, weight: Floats) -> None:
    """Writes exp((gain + saved) / τ): an upper bound on each option's weight if it saves at most ``saved`` nats."""
    for c in range(len(gain)):
        weight[c] = np.exp(min((gain[c] + saved) / temperature, LARGEST_EXPONENT))


@inner_in_place
def likeliest(weight: Floats, tried: NDArray[np.bool_]) -> int:
    """The untried option with the greatest weight; −1 if all of them are less likely than a uniform can show."""
    found, most = -1, NEGLIGIBLE
    for c in range(len(weight)):
        if not tried[c] and weight[c] > most:
            found, most = c, weight[c]
    return found


@inner_in_place
def choose(gain: Floats, tried: NDArray[np.bool_], current: int, draw: float, temperature: float) -> int:
    """The option that ``draw`` chooses among the tried ones, which include the current one.

    The other options own the lower part of [0, 1), so a draw above the bound on their mass keeps the current one.
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
