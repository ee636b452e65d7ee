"""The gate between a challenger and the champion: may a new model take the place of the old one?"""

from __future__ import annotations

from typing import NamedTuple

from concord.schemas.gains import Comparison, points, points_between


class GateVerdict(NamedTuple):
    """Whether the challenger takes over, and why, in a line."""

    promoted: bool
    reason: str


def gate(gain: Comparison, *, least_gain: float = 0.0) -> GateVerdict:
    """The challenger takes over where all of the interval of its gain lies above ``least_gain`` (a fraction).

    With 0 it has to be better: of challengers that are no better one in forty gets through by an interval of 95 %.
    With a negative one it has to be no worse than by so much.
    """
    line = f"{points(gain.difference)} points of F1 (95 %: {points_between(gain.low, gain.high)})"
    if gain.low > least_gain:
        return GateVerdict(promoted=True, reason=line)
    return GateVerdict(promoted=False, reason=f"{line}; the interval has to be above {points(least_gain)}")
