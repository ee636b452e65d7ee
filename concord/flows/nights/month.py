"""A month of an output folder as a page, in Markdown and in HTML: its nights, their drift, and what was asked for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from concord.flows.nights.history import history
from concord.flows.screen.pages import markdown
from concord.schemas.blocks import AnyBlock, Headline, Remark, Table, per_cent, row, text_columns
from concord.schemas.drift import counts_by_difference
from concord.schemas.errors import UsageError
from concord.schemas.nights import DIFFERENCES, HistoryReport, MonthReport, NightLine, NightReport
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
    ended = [night.line for night in found.nights]
    lines = [line for line in ended if line.rolled_back_to is None]
    name = short_name(out)
    title = f"{name}, {month}"
    tables = [table for table in _tables(found) if table.rows]
    nothing = Remark("No run ended in this month.")
    page = Path(into) / f"{name}-{month}"
    report = MonthReport(
        out=redact(out),
        month=month,
        nights=len(lines),
        published=sum(line.published for line in lines),
        cancelled=sum(line.cancelled for line in lines),
        withheld=sum(line.withheld for line in lines),
        failed=sum(line.end not in ("published", "cancelled", "withheld") for line in lines),
        rolled_back=len(ended) - len(lines),
        drifted=sum(line.drift is not None and bool(line.drift.breaches) for line in lines),
        labelled=sum(line.decoded for line in lines),
        differences=_summed(ended),
        page=f"{page}.md",
    )
    blocks: list[AnyBlock] = [Headline(report.runs), Remark(report.sums), *tables, *([] if tables else [nothing])]
    report = report.model_copy(update={"markdown": markdown(title, blocks)})
    first = PageSection("In short", report.sums, ())
    sections = [first, *(PageSection(table.title, "", (replace(table, title=""),)) for table in tables)]
    sections += [] if tables else [PageSection("Nights", nothing.text, ())]
    whole = html_page(PageTitle(title, report.headline), sections)
    for suffix, data in ((".md", report.markdown.encode()), (".html", whole)):
        write_whole(page.with_name(f"{page.name}{suffix}"), data)
    return report


def _summed(lines: Sequence[NightLine]) -> dict[str, int]:
    """Documents by what was different, over all nights that were published, and over rollbacks."""
    nights = (line for line in lines if line.published)
    return dict(sum((Counter(_differences(line)) for line in nights), Counter()))


def _differences(line: NightLine) -> dict[str, int]:
    if line.drift is not None:
        return line.drift.counts
    if line.rolled_back_to is None or line.changes is None:
        return {}
    counts = line.changes.counts
    return counts_by_difference(new=counts.new, gone=counts.gone, texts=counts.text, changed=counts.answer)


def _tables(found: HistoryReport) -> Iterator[Table]:
    heads = ("ended (UTC)", "who", "documents", "labelled", *DIFFERENCES, "rejects", "certified")
    yield _table("Nights", ("night", *heads), map(_cells, found.nights))
    yield _table(
        "Drift",
        ("night", "what moved", "p", "most of all in"),
        (
            (str(night.line.night), m.sentence, f"{m.p_value:.2g}", ", ".join(m.most))
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
    return (
        *(str(line.night), line.time[:16].replace("T", " "), line.user, f"{line.documents:,}"),
        f"{line.decoded:,}" if line.end == "published" else line.end,
        *night.counts,
        *(f"{line.rejected:,}", per_cent(line.certified)),
    )
