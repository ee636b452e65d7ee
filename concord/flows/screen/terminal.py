"""Reports at a terminal: the blocks of a report as lines and tables, none of which is cut off."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import singledispatch
from typing import Any

from rich.table import Table as Grid
from rich.text import Text

from concord.flows.screen.progress import show
from concord.schemas.blocks import AnyBlock, Headline, Passage, Remark, Table, Tone
from concord.schemas.shown import Report, marked_parts
from concord.schemas.visible import visible

STYLES = {Tone.STRONG: "bold", Tone.QUIET: "dim", Tone.NOTICE: "yellow", Tone.WRONG: "red"}

TYPE_STYLES = ("cyan", "green", "magenta", "yellow", "blue", "red")
"""Styles of the types in a text, in order of their names. The type also stands in the brackets."""


def show_report(report: Report) -> None:
    """Prints a report for people."""
    show_blocks(report.blocks())


def show_blocks(blocks: Iterable[AnyBlock]) -> None:
    """Prints blocks in their order, without tables of details."""
    for block in blocks:
        if not (isinstance(block, Table) and block.detail):
            _show(block)


def grid(table: Table) -> Grid:
    """A table as rich draws it: without lines, columns as narrow as their words, text that is too wide goes on in the
    next line. Widths are those of what is shown in place of characters that would steer the terminal."""
    drawn = Grid(box=None, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column in table.columns:
        drawn.add_column(Text(visible(column.head)), justify="right" if column.figures else "left", overflow="fold")
    for one in table.rows:
        drawn.add_row(*(Text(visible(cell)) for cell in one.cells), style=STYLES.get(one.tone))
    return drawn


@singledispatch
def _show(block: AnyBlock) -> None:
    raise TypeError(f"no terminal shows {block!r}")


@_show.register
def _(block: Headline) -> None:
    show(block.text)


@_show.register
def _(block: Remark) -> None:
    show(block.text if block.link is None else f"{block.text}: {block.link}", style=STYLES.get(block.tone))


@_show.register
def _(block: Table) -> None:
    if block.title:
        show(Text(block.title, style="bold"))
    show(grid(block))


@_show.register
def _(block: Passage) -> None:
    passage = _marked(block.text, block.entities)
    show(Text(block.lead, style="dim").append_text(passage) if block.lead else passage)


def _marked(text: str, entities: Sequence[Mapping[str, Any]]) -> Text:
    """The text with each entity in brackets, and its type after it."""
    types = sorted({entity["type"] for entity in entities})
    styles = {name: TYPE_STYLES[i % len(TYPE_STYLES)] for i, name in enumerate(types)}
    marked = Text()
    for part, kind in marked_parts(text.rstrip(), entities):
        if not kind:
            marked.append(part)
            continue
        marked.append(f"[{part} ", style=f"bold {styles[kind]}")
        marked.append(f"{kind}]", style=styles[kind])
    return marked
