"""The look of all tables: no lines, and nothing cut off on a narrow terminal."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text


def figures_table(name: str, *figures: str) -> Table:
    """An empty table: names, and figures to their right.

    Columns are as narrow as their words. Text that is too wide for the terminal goes on in the next line.
    """
    table = text_table(name)
    for figure in figures:
        table.add_column(figure, justify="right", overflow="fold")
    return table


def text_table(*columns: str | Text) -> Table:
    """An empty table of texts; a text that is too wide goes on in the next line."""
    table = Table(box=None, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table
