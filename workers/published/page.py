"""The page of measured tables, as Markdown and as HTML: the same lines, notes and cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from concord.schemas.published import OBJECTIVE, Lies, MeasuredRow, MeasuredTable
from concord.schemas.visible import visible

TITLE = "Published tables, measured again"
MADE_UP = (
    "The corpora of this page are made up: nothing on it can be compared with what a paper published, so it does not "
    "say where published figures lie."
)
READING = (
    "Figures are in per cent, those of objectives in nats. Interval: the middle 95 % of 1,000 draws of documents "
    "(bootstrap); where models learned from drawn documents, draws are drawn, too. Over several runs the figure is "
    "their mean, with standard deviation (n − 1) and minimum. The column published lies says where the published "
    "figure lies beside our interval: below it, inside or above. It does not say which system is better: the paper's "
    "figure has an interval, too, and often another test part."
)
COLUMNS = ("", "published", "measured", "95 % interval", "published lies", "what differs")


class PageLine(NamedTuple):
    """A row of the page: its cells by `COLUMNS`."""

    cells: tuple[str, ...]
    lies: Lies | None


def markdown(tables: Sequence[MeasuredTable], *, made_up: bool) -> str:
    """The page as Markdown."""
    return "\n".join([f"# {TITLE}", "", *_paragraphs(made_up=made_up), *_markdown_of(tables)]).rstrip() + "\n"


def html(tables: Sequence[MeasuredTable], *, made_up: bool) -> str:
    """The page as HTML, whole in one file."""
    body = [f"<h1>{escape(TITLE)}</h1>", *(f"<p>{escape(p)}</p>" for p in _paragraphs(made_up=made_up) if p)]
    return "\n".join([HEAD, *body, *_html_of(tables), "</body></html>"]) + "\n"


HEAD = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(TITLE)}</title><style>
body {{ font: 15px/1.5 sans-serif; max-width: 75em; margin: 2em auto; padding: 0 1em; color: #222; }}
table {{ border-collapse: collapse; margin: 1em 0; }}
th, td {{ border-bottom: 1px solid #ccc; padding: .2em .7em; text-align: left; vertical-align: top; }}
td:nth-child(2), td:nth-child(3), td:nth-child(4) {{ white-space: nowrap; }}
.inside {{ background: #e2f2e2; }} .above {{ background: #fbe3d6; }} .below {{ background: #dfe9f7; }}
</style></head><body>"""


def _paragraphs(*, made_up: bool) -> list[str]:
    return [*([MADE_UP, ""] if made_up else []), READING, ""]


def _markdown_of(tables: Sequence[MeasuredTable]) -> Iterator[str]:
    paper = None
    for table in tables:
        if table.paper != paper:
            yield from (f"## {_plain(table.paper)}", "")
        paper = table.paper
        yield from (f"### Table {_plain(table.table)}. {_plain(table.title)}", "")
        if table.note:
            yield from (_plain(table.note), "")
        yield "| " + " | ".join(COLUMNS) + " |"
        yield "|---" * len(COLUMNS) + "|"
        for line in map(_line, table.rows):
            yield "| " + " | ".join(_plain(cell).replace("|", "\\|") for cell in line.cells) + " |"
        yield from ("", _cost(table), "")


def _html_of(tables: Sequence[MeasuredTable]) -> Iterator[str]:
    paper = None
    for table in tables:
        if table.paper != paper:
            yield f"<h2>{escape(_plain(table.paper))}</h2>"
        paper = table.paper
        yield f"<h3>Table {escape(_plain(table.table))}. {escape(_plain(table.title))}</h3>"
        if table.note:
            yield f"<p>{escape(_plain(table.note))}</p>"
        yield "<table><tr>" + "".join(f"<th>{escape(name)}</th>" for name in COLUMNS) + "</tr>"
        for line in map(_line, table.rows):
            cells = "".join(f"<td>{escape(_plain(cell))}</td>" for cell in line.cells)
            yield f'<tr class="{line.lies.value if line.lies else "open"}">{cells}</tr>'
        yield f"</table><p>{escape(_cost(table))}</p>"


def _plain(text: str) -> str:
    """Text of a file or a message on one line, with nothing in it that steers a terminal."""
    return visible(" ".join(text.split()))


def _cost(table: MeasuredTable) -> str:
    return f"{table.cpu_seconds:,.1f} CPU seconds of workers: training, scoring, engines and counts."


def _line(row: MeasuredRow) -> PageLine:
    places = 2
    published = "" if row.published is None else _figure(row.published, places) + _spread(row.sd, row.minimum, None)
    if row.measured is None or row.low is None or row.high is None:
        return PageLine((row.name, published, "no figure", "", "", _notes(row)), None)
    measured = _figure(row.measured, places) + _spread(row.measured_sd, row.measured_minimum, row.runs)
    interval = f"{_figure(row.low, places)} to {_figure(row.high, places)}"
    return PageLine(
        (row.name, published, measured, interval, row.lies.value if row.lies else "", _notes(row)), row.lies
    )


def _figure(value: float, places: int) -> str:
    # No negative zero.
    return f"{round(value, places) + 0.0:.{places}f}".replace("-", "−")


def _spread(sd: float | None, minimum: float | None, runs: int | None) -> str:
    parts = [] if runs is None or sd is None else [f"{runs} runs"]
    parts += [] if sd is None else [f"sd {sd:.3f}"]
    parts += [] if minimum is None else [f"min {_figure(minimum, 2)}"]
    return f" ({', '.join(parts)})" if parts else ""


def _notes(row: MeasuredRow) -> str:
    unit = "nats" if row.figure == OBJECTIVE else None
    test = None if row.t_test is None else f"t-test of the runs: p = {row.t_test:.2g}"
    return "; ".join(part for part in (unit, row.note, test, row.why) if part)
