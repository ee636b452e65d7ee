"""The page of measured tables, as Markdown and as HTML: the same lines, notes and cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import NamedTuple

from concord.schemas.published import OBJECTIVE, PAIRS, Lies, MeasuredRow, MeasuredTable
from concord.schemas.visible import visible
from concord.workers.storage.html_page import html_page

TITLE = "Published tables, measured again"
MADE_UP = (
    "The corpora of this page are made up: nothing on it can be compared with what a paper published, so it does not "
    "say where published figures lie."
)
READING = (
    "Figures are in per cent, those of objectives in nats. Interval: the middle 95 % of 1,000 draws of documents "
    "(bootstrap); where models learned from drawn documents, draws are drawn, too. Over several runs the figure is "
    "their mean, with standard deviation (n − 1) and minimum. The column published lies says where the published "
    "figure lies beside our interval: below it, inside or above; beside counts, inside is the same count. It does not "
    "say which system is better: the paper's figure has an interval, too, and often another test part."
)
DIFFERS = "what differs"
UNEXPLAINED = "why ours is lower is not known"
COLUMNS = ("", "published", "measured", "95 % interval", "published lies", DIFFERS)
PLACES = 2
STYLE = """td:nth-child(2), td:nth-child(3), td:nth-child(4) { white-space: nowrap; }
.inside { background: #e2f2e2; } .above { background: #fbe3d6; } .below { background: #dfe9f7; }
"""


class PageCell(NamedTuple):
    """A cell of the page, and where a published figure in it lies."""

    text: str
    lies: Lies | None = None


def markdown(tables: Sequence[MeasuredTable], *, made_up: bool, unmeasured: int = 0) -> str:
    """The page as Markdown; ``unmeasured``: number of tables that are not measured yet."""
    paragraphs = _paragraphs(made_up=made_up, unmeasured=unmeasured)
    return "\n".join([f"# {TITLE}", "", *paragraphs, *_markdown_of(tables)]).rstrip() + "\n"


def html(tables: Sequence[MeasuredTable], *, made_up: bool, unmeasured: int = 0) -> str:
    """The page as HTML, whole in one file; ``unmeasured`` as above."""
    paragraphs = (f"<p>{escape(p)}</p>" for p in _paragraphs(made_up=made_up, unmeasured=unmeasured) if p)
    return html_page(TITLE, [*paragraphs, *_html_of(tables)], style=STYLE)


def _paragraphs(*, made_up: bool, unmeasured: int) -> list[str]:
    more = "table is" if unmeasured == 1 else "tables are"
    unfinished = f"{unmeasured} more {more} not measured yet: give the same command again."
    return [*([MADE_UP, ""] if made_up else []), *([unfinished, ""] if unmeasured else []), READING, ""]


def _markdown_of(tables: Sequence[MeasuredTable]) -> Iterator[str]:
    paper = None
    for table in tables:
        if table.paper != paper:
            yield from (f"## {_plain(table.paper)}", "")
        paper = table.paper
        yield from (f"### {_plain(_title(table))}", "")
        for paragraph in _above(table):
            yield from (_plain(paragraph), "")
        head, lines = _grid(table)
        yield "| " + " | ".join(head) + " |"
        yield "|---" * len(head) + "|"
        for line in lines:
            yield "| " + " | ".join(_plain(cell.text).replace("|", "\\|") for cell in line) + " |"
        yield from ("", _cost(table), "")


def _html_of(tables: Sequence[MeasuredTable]) -> Iterator[str]:
    paper = None
    for table in tables:
        if table.paper != paper:
            yield f"<h2>{escape(_plain(table.paper))}</h2>"
        paper = table.paper
        yield f"<h3>{escape(_plain(_title(table)))}</h3>"
        yield from (f"<p>{escape(_plain(paragraph))}</p>" for paragraph in _above(table))
        head, lines = _grid(table)
        yield "<table><tr>" + "".join(f"<th>{escape(_plain(name))}</th>" for name in head) + "</tr>"
        for line in lines:
            yield "<tr>" + "".join(map(_html_cell, line)) + "</tr>"
        yield f"</table><p>{escape(_cost(table))}</p>"


def _title(table: MeasuredTable) -> str:
    """Number and title; what has no number, such as a section, says itself what it is."""
    begins = table.table[:1]
    return f"{'Table ' * begins.isdigit()}{begins.upper()}{table.table[1:]}. {table.title}"


def _html_cell(cell: PageCell) -> str:
    style = f' class="{cell.lies.value}"' if cell.lies else ""
    return f"<td{style}>{escape(_plain(cell.text))}</td>"


def _plain(text: str) -> str:
    """Text of a file or a message on one line, with nothing in it that steers a terminal."""
    return visible(" ".join(text.split()))


def _above(table: MeasuredTable) -> list[str]:
    """Paragraphs between a table's title and its figures."""
    return [*([table.note] if table.note else []), *([" ".join(table.parts)] if table.parts else [])]


def _cost(table: MeasuredTable) -> str:
    return f"{table.cpu_seconds:,.1f} CPU seconds of workers: training, scoring, engines and counts."


def _grid(table: MeasuredTable) -> tuple[Sequence[str], list[list[PageCell]]]:
    """Titles of columns, and the lines of the page: one for each row, or one for all rows of a name."""
    columns = list(dict.fromkeys(row.column for row in table.rows if row.column is not None))
    if not columns:
        return COLUMNS, [_line(row) for row in table.rows]
    by_name: dict[str, dict[str | None, MeasuredRow]] = {}
    for row in table.rows:
        by_name.setdefault(row.name, {})[row.column] = row
    return ("", *map(_plain, columns), DIFFERS), [_beside(n, own, columns) for n, own in by_name.items()]


def _beside(name: str, rows: Mapping[str | None, MeasuredRow], columns: Sequence[str]) -> list[PageCell]:
    """The line of all rows of a name."""
    notes = dict.fromkeys(note for row in rows.values() for note in (row.note, row.why) if note)
    cells = [_short(rows[column]) if column in rows else PageCell("") for column in columns]
    return [PageCell(name), *cells, PageCell("; ".join(notes))]


def _short(row: MeasuredRow) -> PageCell:
    """A row in one cell."""
    interval = f" ({_interval(row)})" if row.low is not None else ""
    published = "" if row.published is None else f"; published {_figure(row.published, row)}"
    return PageCell(f"{_measured(row)}{interval}{published}", row.lies)


def _line(row: MeasuredRow) -> list[PageCell]:
    published = "" if row.published is None else _figure(row.published, row) + _spread(row, row.sd, row.minimum)
    lies = row.lies.value if row.lies else ""
    texts = (row.name, published, _measured(row), _interval(row), lies, _notes(row))
    return [PageCell(text, row.lies) for text in texts]


def _measured(row: MeasuredRow) -> str:
    if row.measured is None:
        return "no figure"
    runs = None if row.measured_sd is None else row.runs
    return _figure(row.measured, row) + _spread(row, row.measured_sd, row.measured_minimum, runs)


def _interval(row: MeasuredRow) -> str:
    return "" if row.low is None or row.high is None else f"{_figure(row.low, row)} to {_figure(row.high, row)}"


def _figure(value: float, row: MeasuredRow) -> str:
    if row.figure == PAIRS:
        return f"{value:,.0f}"
    # No negative zero.
    return f"{round(value, PLACES) + 0.0:,.{PLACES}f}".replace("-", "−")


def _spread(row: MeasuredRow, sd: float | None, minimum: float | None, runs: int | None = None) -> str:
    parts = [] if runs is None else [f"{runs} runs"]
    parts += [] if sd is None else [f"sd {sd:.3f}"]
    parts += [] if minimum is None else [f"min {_figure(minimum, row)}"]
    return f" ({', '.join(parts)})" if parts else ""


def _notes(row: MeasuredRow) -> str:
    unit = "nats" if row.figure == OBJECTIVE else None
    test = None if row.t_test is None else f"t-test of the runs: p = {row.t_test:.2g}"
    note = row.note or (UNEXPLAINED if row.lies is Lies.ABOVE else None)
    return "; ".join(part for part in (unit, note, test, row.why) if part)
