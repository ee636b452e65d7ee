"""Sweeps as tables and lines for people."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

from concord.flows.commands.sweeps import ShownSweep
from concord.flows.screen.terminal import grid
from concord.schemas.blocks import Headline, Remark, Table, Tone, figure_columns, row
from concord.schemas.gains import points
from concord.schemas.sweep import CellState, failed_cells
from concord.workers.sweeps.tables import LEVEL, ComparisonRow, comparison_table

UNBOUNDED = 10_000
"""Width, in characters, at which every table is whole."""


def shown_table(shown: ShownSweep) -> Table:
    """A figure (per cent) by the values of an axis, with intervals, and differences where there is a base."""
    axes = list(shown.rows[0].others)
    changes = [] if shown.against is None else ["change", "from", "to", "p"]
    spread = ["sd"] if any(one.spread is not None for one in shown.rows) else []
    columns = figure_columns(*axes, shown.by, "cells", "documents", shown.figure, "low", "high", *spread, *changes)
    rows = []
    for one in shown.rows:
        figures = [f"{100 * value:.2f}" for value in one.interval]
        figures += ["" if one.spread is None else f"{100 * one.spread:.2f}" for _ in spread]
        better = one.adjusted is not None and one.adjusted < LEVEL
        best = better and one.difference is not None and one.difference.difference > 0
        rows.append(
            row(
                *(_text(one.others[name]) for name in axes),
                *(_text(one.value), f"{one.cells:,}", f"{one.documents:,}", *figures),
                *(_changes(one) if changes else []),
                tone=Tone.STRONG if best else Tone.PLAIN,
            )
        )
    return Table(columns, tuple(rows))


class FittedTable:
    """`shown_table` where the terminal is wide enough; else a table for each combination of the other axes."""

    def __init__(self, shown: ShownSweep) -> None:
        self._shown = shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """What rich prints."""
        whole = grid(shown_table(self._shown))
        if Measurement.get(console, options.update(max_width=UNBOUNDED), whole).maximum <= options.max_width:
            yield whole
            return
        for others, rows in groupby(self._shown.rows, key=lambda row: row.others):
            yield Text(", ".join(f"{axis} {_text(value)}" for axis, value in others.items()), style="bold")
            yield grid(shown_table(self._shown._replace(rows=[one._replace(others={}) for one in rows])))


def _changes(row: ComparisonRow) -> list[str]:
    if row.difference is None or row.adjusted is None:
        return [""] * 4
    difference = row.difference
    return [
        *map(points, difference.with_interval),
        f"{row.adjusted:.3f}",
    ]


def _text(value: Any) -> str:
    return "all" if value is None else str(value)


def shown_lines(shown: ShownSweep) -> list[Headline | Remark]:
    """How many cells are in which state, what intervals and p-values are, and why cells failed."""
    counts = ", ".join(f"{shown.count(state):,} {state}" for state in CellState if shown.count(state))
    lines = _chosen(shown)
    if shown.rows:
        drawn = "documents and training draws" if _is_drawn(shown) else "documents"
        lines.append(f"{shown.figure} in per cent; low and high: 95 % interval, bootstrap over {drawn}")
        if any(row.spread is not None for row in shown.rows):
            lines.append("the mean over runs (seeds and training draws), and their standard deviation (sd)")
    compared = sum(row.difference is not None for row in shown.rows)
    if compared:
        lines.append(f"change: on the same documents; p: adjusted for {compared} differences (Holm)")
    headline = Headline(f"{len(shown.cells):,} cells: {counts}")
    return [headline, *map(Remark, lines), *failed_cells([one for _, one in shown.cells])]


def _is_drawn(shown: ShownSweep) -> bool:
    """Whether some cells learned from several draws of training documents."""
    return len({cell.subset for cell, _ in shown.cells} - {None}) > 1


def _chosen(shown: ShownSweep) -> list[str]:
    """Which setting was chosen, where, and on what documents its figures are."""
    choice, found = shown.choice, shown.search
    if choice is None or choice.select is None:
        return []
    if found.chosen is None:
        return [f"no setting is chosen yet: cells of {choice.select.on!r} are still to do, or all have failed"]
    value = f"{found.figure} {100 * found.worth[found.chosen]:.2f}, best of {len(found.worth)}"
    lines = [f"chosen on {choice.select.on!r}: {found.chosen.name} ({value})"]
    if choice.select.on in choice.reported:
        lines.append("figures are those of the documents that chose, and too good")
    return lines


def shown_json(shown: ShownSweep) -> str:
    """All of it as JSON."""
    rows = comparison_table(shown.rows, by=shown.by).to_pylist() if shown.rows else []
    cells = [row.model_dump(mode="json") for _, row in shown.cells]
    return json.dumps({"figure": shown.figure, "by": shown.by, "against": shown.against, "rows": rows, "cells": cells})
