"""How every table for people looks: no lines, and nothing cut off on a narrow terminal."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text


def figures_table(name: str, *figures: str) -> Table:
    """An empty table: names, and figures to their right.

    Columns are as narrow as their words, and what is too wide for the terminal goes on in the next line: nothing
    is ever cut off.
    """
    table = text_table(name)
    for figure in figures:
        table.add_column(figure, justify="right", overflow="fold")
    return table


def text_table(*columns: str | Text) -> Table:
    """An empty table of texts that go on in the next line where they are too wide."""
    table = Table(box=None, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
