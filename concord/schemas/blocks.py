"""What a report says, as data: a headline, tables and remarks, which a terminal, a page and a notebook each draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Tone(StrEnum):
    """How a line or a row stands out."""

    PLAIN = "plain"
    STRONG = "strong"
    """The row that counts: the best one, or a total."""
    QUIET = "quiet"
    NOTICE = "notice"
    """Something to look at, which is no error."""
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Headline:
    """What a report comes to, in one line. A report has one.

    Pages and notebooks begin with it. A terminal prints it in its place, as the last lines are seen there.
    """

    text: str


@dataclass(frozen=True, slots=True)
class Remark:
    """One line; ``link`` is the address that it leads to."""

    text: str
    tone: Tone = Tone.PLAIN
    link: str | None = None


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column: its head, with the unit, and whether it has figures, which stand to the right.

    Line breaks in the head keep a column of figures narrow where room is scarce.
    """

    head: str
    figures: bool = False


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row: one text for each column."""

    cells: tuple[str, ...]
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under heads.

    - ``detail``: has only a page or a notebook room for it? A terminal leaves it out; remarks say the most of it.
    """

    columns: tuple[TableColumn, ...]
    rows: tuple[TableRow, ...]
    title: str = ""
    detail: bool = False

    def __post_init__(self) -> None:
        """Raises `ValueError` for a row with more or fewer cells than there are columns."""
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(f"{len(row.cells)} cells, want {len(self.columns)}: {row.cells}")

    @property
    def heads(self) -> tuple[str, ...]:
        """The heads, each in one line."""
        return tuple(" ".join(column.head.split("\n")) for column in self.columns)


@dataclass(frozen=True, slots=True)
class Passage:
    """A text with its entities, as mappings of ``type``, ``char_start`` and ``char_end``; ``lead`` stands before it."""

    text: str
    entities: tuple[Mapping[str, Any], ...]
    lead: str = ""


AnyBlock = Headline | Remark | Table | Passage


def figure_columns(name: str, *heads: str) -> tuple[TableColumn, ...]:
    """Columns of names, and of figures beside them."""
    return TableColumn(name), *(TableColumn(head, figures=True) for head in heads)


def text_columns(*heads: str) -> tuple[TableColumn, ...]:
    """Columns of texts."""
    return tuple(map(TableColumn, heads))


def per_cent(share: float, digits: int = 1) -> str:
    """A share in per cent, rounded; 100 only where nothing is missing."""
    least = 10.0 ** -(digits + 2)
    return f"{min(share, 1.0 - least) if share < 1.0 else share:.{digits}%}"


def row(*cells: str, tone: Tone = Tone.PLAIN) -> TableRow:
    """A row of these cells."""
    return TableRow(cells, tone)
