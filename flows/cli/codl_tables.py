"""The cycles of constraint-driven learning, for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from flows.cli.plain_tables import figures_table
from schemas.codl import Cycle


def cycles_table(cycles: Sequence[Cycle]) -> Table:
    """A row a cycle; blank where there is nothing to say."""
    table = figures_table("cycle", "labels changed %", "penalty", "certified %", "development tokens right %")
    for cycle in cycles:
        shares = (cycle.changed, cycle.certified, cycle.accuracy)
        changed, certified, accuracy = ("" if share is None else f"{100 * share:.2f}" for share in shares)
        penalty = "" if cycle.penalty is None else f"{cycle.penalty:,.0f}"
        table.add_row(str(cycle.number), changed, penalty, certified, accuracy)
    return table
