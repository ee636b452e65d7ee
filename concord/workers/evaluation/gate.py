"""The gate between a challenger and the champion: may a new model take the place of the old one?"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Gain(Protocol):
    """What `workers.evaluation.bootstrap.Comparison` has: a difference (a fraction) and its interval."""

    @property
    def difference(self) -> float:
        """Challenger − champion."""
        ...

    @property
    def low(self) -> float:
        """Lower bound."""
        ...

    @property
    def high(self) -> float:
        """Upper bound."""
        ...


class GateVerdict(NamedTuple):
    """Whether the challenger takes over, and why, in a line."""

    promoted: bool
    reason: str


def gate(gain: Gain, *, least_gain: float = 0.0) -> GateVerdict:
    """The challenger takes over where all of the interval of its gain lies above ``least_gain`` (a fraction).

    With 0 it has to be better: of challengers that are no better one in forty gets through by an interval of 95 %.
    With a negative one it has to be no worse than by so much.
    """
    line = f"{_points(gain.difference)} points of F1 (95 %: {_points(gain.low)} to {_points(gain.high)})"
    if gain.low > least_gain:
        return GateVerdict(promoted=True, reason=line)
    return GateVerdict(promoted=False, reason=f"{line}; the interval has to be above {_points(least_gain)}")


def _points(share: float) -> str:
    return f"{100 * share:+.2f}"
