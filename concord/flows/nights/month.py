"""A month of an output folder as a page, in Markdown and in HTML: its nights, their drift, and what was asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from concord.flows.nights.history import history
from concord.flows.screen.pages import markdown
from concord.schemas.blocks import Remark, Table, row, text_columns
from concord.schemas.errors import UsageError
from concord.schemas.nights import HistoryReport, MonthReport, NightReport
from concord.schemas.secrets import redact, short_name
from concord.schemas.visible import visible
from concord.workers.report.page import PageTitle
from concord.workers.report.page import page as html_page
from concord.workers.report.sections import PageSection
from concord.workers.storage.files import write_whole

MONTH = re.compile(r"\d{4}-(0[1-9]|1[0-2])")


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
    tables = [table for table in _tables(found) if table.rows]
    nothing = Remark("No run ended in this month.")
    page = Path(into) / f"{name}-{month}"
    report = MonthReport(
        out=redact(out),
        month=month,
        nights=len(lines),
        failed=sum(line.failed > 0 for line in lines),
        drifted=sum(line.drift is not None and bool(line.drift.breaches) for line in lines),
        labelled=sum(line.labelled for line in lines),
        page=f"{page}.md",
        markdown=markdown(title, tables or [nothing]),
    )
    sections = [PageSection(table.title, "", (replace(table, title=""),)) for table in tables]
    sections = sections or [PageSection("Nights", nothing.text, ())]
    whole = html_page(PageTitle(title, report.headline), sections)
    for suffix, data in ((".md", report.markdown.encode()), (".html", whole)):
        write_whole(page.with_name(f"{page.name}{suffix}"), data)
    return report


def _tables(found: HistoryReport) -> Iterator[Table]:
    heads = ("ended (UTC)", "who", "documents", "labelled", "new", "gone", "changed", "rejects", "certified")
    yield _table("Nights", ("night", *heads), map(_cells, found.nights))
    yield _table(
        "Drift",
        ("night", "figure", "of", "before", "after", "p"),
        (
            (str(night.line.night), m.figure, m.of, f"{m.before:.4g}", f"{m.after:.4g}", f"{m.p_value:.2g}")
            for night in found.nights
            for m in night.breaches
        ),
    )
    yield _table(
        "Asked for otherwise than in the night before",
        ("night", "what", "before", "after"),
        (
            (str(night.line.night), name, old or "none", new or "none")
            for night in found.nights
            for name, (old, new) in night.changed.items()
        ),
    )
    yield _table(
        "Answers that changed most",
        ("night", "document", "spans"),
        (
            (str(night.line.night), document.doc_id, f"{document.spans:,}")
            for night in found.nights
            if night.line.drift is not None
            for document in night.line.drift.most_changed
        ),
    )


def _table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table without secrets."""
    return Table(text_columns(*heads), tuple(row(*map(redact, cells)) for cells in rows), title)


def _cells(night: NightReport) -> tuple[str, ...]:
    line = night.line
    labelled = f"{line.failed:,} shards failed" if line.failed else f"{line.labelled:,}"
    return (
        *(str(line.night), line.time[:16].replace("T", " "), line.user, f"{line.documents:,}"),
        "not published" if line.withheld or line.cancelled else labelled,
        *night.counts,
        *(f"{line.rejected:,}", f"{line.certified:.1%}"),
    )
