"""Contract tests of penalties: the cost of a broken row, given the numbers of rows and of broken rows in gold."""

from __future__ import annotations

import math
from collections.abc import Callable

from concord.testing.expect import expect, expect_same
from concord.workers.learning.weights.penalties import Penalty, PenaltySettings
from concord.workers.learning.weights.row_counts import RowCounts

ROW_COUNTS = (0, 1, 2, 3, 10, 97, 10_000)


def check_penalty(penalty: Penalty) -> None:
    """Runs all `PENALTY_CHECKS`, with default settings. Raises `AssertionError` at a broken promise."""
    settings = penalty.settings()
    for check in PENALTY_CHECKS:
        check(penalty, settings)


def broken_of(rows: int) -> list[float]:
    """Ascending numbers of broken rows, from none to all; some are fractions, as the ends of intervals are."""
    return sorted({0.0, rows * 0.01, rows * 0.25, rows // 2, rows * 0.9, max(rows - 1, 0), float(rows)})


def it_costs_nothing_or_something(penalty: Penalty, settings: PenaltySettings) -> None:
    """The cost is a number of nats ≥ 0, or infinity; a reward would break the bounds of engines."""
    for rows in ROW_COUNTS:
        for broken in broken_of(rows):
            nats = penalty.nats(rows, broken, settings)
            expect(isinstance(nats, float | int) and nats >= 0.0, f"nats ≥ 0 of {broken} in {rows}, not {nats!r}")


def what_breaks_more_costs_no_more(penalty: Penalty, settings: PenaltySettings) -> None:
    """Among equally many rows, the cost does not rise with the number that gold breaks."""
    for rows in ROW_COUNTS:
        nats = [penalty.nats(rows, broken, settings) for broken in broken_of(rows)]
        expect_same(nats, sorted(nats, reverse=True), f"nats of {broken_of(rows)} broken rows in {rows}")


def the_same_counts_cost_the_same(penalty: Penalty, settings: PenaltySettings) -> None:
    """The cost depends only on the counts and the settings, not on earlier calls."""
    counts = [(rows, broken) for rows in ROW_COUNTS for broken in broken_of(rows)]
    first = [penalty.nats(*pair, settings) for pair in counts]
    again = [penalty.nats(*pair, penalty.settings()) for pair in reversed(counts)]
    expect_same(again[::-1], first, "nats of the same counts, a second time")


def the_interval_is_around_the_weight(penalty: Penalty, settings: PenaltySettings) -> None:
    """The 95 % interval of a weight contains the weight, also if a broken row has several units of degree."""
    for rows in ROW_COUNTS[1:]:
        for broken in {0, rows // 2, rows}:
            counts = RowCounts(rows, 0, broken, 1.5 * broken)
            weight, (low, high) = counts.weight(penalty, settings), counts.interval(penalty, settings)
            slack = 1e-9 * abs(weight) if math.isfinite(weight) else 0.0
            expect(low <= weight + slack and weight <= high + slack, f"{low} ≤ {weight} ≤ {high}, {broken} of {rows}")


PENALTY_CHECKS: tuple[Callable[[Penalty, PenaltySettings], None], ...] = (
    it_costs_nothing_or_something,
    what_breaks_more_costs_no_more,
    the_same_counts_cost_the_same,
    the_interval_is_around_the_weight,
)
"""The single checks, each a function of a penalty and its settings."""
