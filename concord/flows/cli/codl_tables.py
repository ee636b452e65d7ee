"""The cycles of constraint-driven learning, for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from concord.flows.cli.plain_tables import figures_table
from concord.schemas.codl import Cycle, GammaTrial


def cycles_table(cycles: Sequence[Cycle]) -> Table:
    """A row for each cycle; figures that a cycle does not have are blank."""
    table = figures_table("cycle", "labels changed %", "penalty", "certified %", "held-out tokens right %")
    for cycle in cycles:
        shares = (cycle.changed, cycle.certified, cycle.accuracy)
        changed, certified, accuracy = ("" if share is None else f"{100 * share:.2f}" for share in shares)
        penalty = "" if cycle.penalty is None else f"{cycle.penalty:,.0f}"
        table.add_row(str(cycle.number), changed, penalty, certified, accuracy)
    return table


def trials_table(trials: Sequence[GammaTrial]) -> Table:
    """A row for each gamma (share of the first model) that was tried."""
    table = figures_table("gamma", "held-out tokens right %", "gain over the largest %", "interval of 95 %")
    for trial in trials:
        interval = f"{100 * trial.low:+.2f} to {100 * trial.high:+.2f}"
        table.add_row(f"{trial.gamma:g}", f"{100 * trial.accuracy:.2f}", f"{100 * trial.gain:+.2f}", interval)
    return table
