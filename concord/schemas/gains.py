"""Gains with their intervals; gains and figures are fractions, intervals hold 95 % of draws of documents."""

from __future__ import annotations

from concord.schemas.shown import Report


def points(share: float) -> str:
    """A gain in points, with its sign."""
    return f"{100 * share:+.2f}"


def points_between(low: float, high: float) -> str:
    """An interval of gains in points."""
    return f"{points(low)} to {points(high)}"


class Comparison(Report):
    """Difference of a figure between two labellings.

    - ``difference``: other − base.
    - ``low``, ``high``: its interval.
    - ``p_value``: two-sided; how often chance alone would show a difference at least this large.
    """

    difference: float
    low: float
    high: float
    p_value: float

    @property
    def with_interval(self) -> tuple[float, float, float]:
        """The difference and the ends of its interval."""
        return self.difference, self.low, self.high


class Gain(Report):
    """A gain over a base, and its interval ``low`` to ``high``."""

    gain: float
    low: float
    high: float

    @property
    def gain_cells(self) -> tuple[str, str]:
        """The gain and its interval in points, for a table."""
        return points(self.gain), points_between(self.low, self.high)


class FigureEffect(Report):
    """A figure of a measure without and with something, on the same documents.

    - ``before``, ``after``: figure without it, and with it.
    - ``low``, ``high``: interval of ``after`` − ``before``; too favourable where documents chose what they judge.
    """

    measure: str
    figure: str
    before: float
    after: float
    low: float
    high: float
