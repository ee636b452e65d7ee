"""A penalty: twice the surprise of a broken row."""

from __future__ import annotations

import math

from concord.parts import Penalty, PenaltySettings


def doubled(rows: float, broken: float, settings: PenaltySettings) -> float:
    """−2 log of the share of rows that are broken, one half added to either count."""
    del settings
    return -2.0 * math.log((broken + 0.5) / (rows + 1.0))


DOUBLED = Penalty(doubled, PenaltySettings, "twice the surprise of a broken row")
