"""A month of an output folder as a page, in Markdown and in HTML: its nights, their drift, and what was asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from pathlib import Path
from typing import NamedTuple

from concord.flows.nights.history import history
from concord.flows.screen.pages import cell, table
from concord.schemas.errors import UsageError
from concord.schemas.nights import HistoryReport, MonthReport, NightReport
from concord.schemas.secrets import redact, short_name
from concord.schemas.visible import visible
from concord.workers.storage.files import write_whole
from concord.workers.storage.html_page import html_page

MONTH = re.compile(r"\d{4}-(0[1-9]|1[0-2])")


class PageTable(NamedTuple):
    """A table of the page, and its title."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


def last_month(now: datetime) -> str:
    """The month before that of a time, as YYYY-MM."""
    return (now.replace(day=1) - timedelta(days=1)).strftime("%Y-%m")


def report_month(out: str, into: str, month: str | None = None) -> MonthReport:
    """Writes the page of a month (default: the last one) into a folder.

    Raises `UsageError` for what is no month, `RunFolderError` where no run is recorded, and `OutputError`.
    """
    month = month or last_month(datetime.now(UTC))
    if not MONTH.fullmatch(month):
        raise UsageError(f"month {visible(month)}: want YYYY-MM, such as {last_month(datetime.now(UTC))}")
    found = history(out, month=month)
    lines = [night.line for night in found.nights]
    name = short_name(out)
    title = f"{name}, {month}"
    parts = [part for part in _parts(found) if part.rows]
    page = Path(into) / f"{name}-{month}"
    text = _markdown(title, parts)
    for suffix, data in ((".md", text), (".html", _html(title, parts))):
        write_whole(page.with_name(f"{page.name}{suffix}"), data.encode())
    return MonthReport(
        out=redact(out),
        month=month,
        nights=len(lines),
        failed=sum(line.failed > 0 for line in lines),
        drifted=sum(line.drift is not None and bool(line.drift.breaches) for line in lines),
        labelled=sum(line.labelled for line in lines),
        page=f"{page}.md",
        markdown=text,
    )


def _parts(found: HistoryReport) -> Iterator[PageTable]:
    yield PageTable(
        "Nights",
        ("night", "ended (UTC)", "who", "documents", "labelled", "new", "gone", "changed", "rejects", "certified"),
        [_row(night) for night in found.nights],
    )
    drifted = [(night.line, night.line.drift) for night in found.nights if night.line.drift is not None]
    yield PageTable(
        "Drift",
        ("night", "figure", "of", "before", "after", "p"),
        [
            (str(line.night), move.figure, move.of, f"{move.before:.4g}", f"{move.after:.4g}", f"{move.p_value:.2g}")
            for line, drift in drifted
            for move in drift.breaches
        ],
    )
    yield PageTable(
        "Asked for otherwise than in the night before",
        ("night", "what", "before", "after"),
        [
            (str(night.line.night), name, old or "none", new or "none")
            for night in found.nights
            for name, (old, new) in night.changed.items()
        ],
    )
    yield PageTable(
        "Answers that changed most",
        ("night", "document", "spans"),
        [(str(line.night), doc.doc_id, f"{doc.spans:,}") for line, drift in drifted for doc in drift.most_changed],
    )


def _row(night: NightReport) -> tuple[str, ...]:
    line, drift = night.line, night.line.drift
    counts = ("", "", "") if drift is None else tuple(f"{n:,}" for n in (drift.new, drift.gone, drift.changed))
    labelled = f"{line.failed:,} shards failed" if line.failed else f"{line.labelled:,}"
    when = line.time[:16].replace("T", " ")
    start = (
        str(line.night),
        when,
        line.user,
        f"{line.documents:,}",
        "not published" if line.withheld or line.cancelled else labelled,
    )
    return (*start, *counts, f"{line.rejected:,}", f"{line.certified:.1%}")


def _markdown(title: str, parts: Sequence[PageTable]) -> str:
    body = [f"## {part.title}\n\n{table(part.heads, part.rows)}" for part in parts] or ["No run ended in this month."]
    return "\n\n".join([f"# {cell(title)}", *body]) + "\n"


def _html(title: str, parts: Sequence[PageTable]) -> str:
    body = [f"<h2>{escape(part.title)}</h2>{_html_table(part)}" for part in parts]
    return html_page(title, body or ["<p>No run ended in this month.</p>"])


def _html_table(part: PageTable) -> str:
    heads = "".join(f"<th>{escape(head)}</th>" for head in part.heads)
    rows = ("".join(f"<td>{escape(visible(redact(text)))}</td>" for text in row) for row in part.rows)
    return f"<table><tr>{heads}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"
