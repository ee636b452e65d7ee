"""Random draws of a Gibbs chain: what cannot change is settled by bounds on the mass of all that can."""

from __future__ import annotations

from typing import Any

import numpy as np

from workers.compiling.kernel import inner_in_place
from workers.inference.sampling.state import STATE

CERTAIN = 40.0
"""A margin of this many temperatures leaves less probability than a 53-bit uniform can show."""

NEGLIGIBLE = np.exp(-CERTAIN)

LARGEST_EXPONENT = 600.0
"""Keeps bounds on weights finite; no draw is above one of this size."""


@inner_in_place
def uniform(counters: Any) -> Any:
    """A uniform number in (0, 1): splitmix64 over the chain's own counter."""
    counters[STATE] += np.uint64(0x9E3779B97F4A7C15)
    z = counters[STATE]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (np.float64(z >> np.uint64(11)) + 0.5) / 9007199254740992.0


@inner_in_place
def draw_within(counters: Any, exponent: float, choices: int) -> Any:
    """A uniform draw, or 2 where no draw could change anything.

    ``exponent`` is the most that another choice gains locally plus what the document pays now for
    rows, and the site for spans (a change cannot save more), over the temperature: the other
    choices together have at most the mass (choices − 1) · exp(exponent).
    """
    if exponent < -CERTAIN:
        return 2.0
    draw = uniform(counters)
    if exponent < 0.0 and draw >= (choices - 1) * np.exp(exponent):
        return 2.0
    return draw


@inner_in_place
def decided(draw: float, mass: float) -> Any:
    """Does a draw keep the labels now, whose weight is 1, where all others together weigh at most ``mass``?"""
    return draw * (1.0 + mass) >= mass


@inner_in_place
def weigh(gain: Any, saved: float, temperature: float, weight: Any) -> None:
    """Writes the most that each option weighs if it saves ``saved`` nats, the labels now weighing 1."""
    for c in range(len(gain)):
        weight[c] = np.exp(min((gain[c] + saved) / temperature, LARGEST_EXPONENT))


@inner_in_place
def likeliest(weight: Any, tried: Any) -> Any:
    """The option with most weight of those not tried, −1 where no draw could show any of them."""
    found, most = -1, NEGLIGIBLE
    for c in range(len(weight)):
        if not tried[c] and weight[c] > most:
            found, most = c, weight[c]
    return found


@inner_in_place
def choose(gain: Any, tried: Any, current: int, draw: float, temperature: float) -> Any:
    """Which of the options that are tried a draw chooses, the current one among them.

    The others come first in [0, 1), so that a draw above their bound keeps the current one.
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
