"""`concord history` and `monthly`: the nights of an output folder. Heavy imports stay inside the commands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from concord.flows.cli.arguments import RunFolder
from concord.flows.cli.settings_options import FieldOptions, OptionForm
from concord.flows.screen.progress import say, show
from concord.schemas.nights import HistoryReport, MonthReport, NightReport
from concord.schemas.requests import MonthRequest

HISTORY_EXAMPLE = "Example: concord history --run out/"
MONTHLY_EXAMPLE = "Example: concord monthly --run out/ --month 2026-10 --out reports/"

DIGEST = re.compile(r"[0-9a-f]{40,}")
SHOWN_DIGITS = 8
"""Hex digits of a digest that are shown."""


def show_history(report: HistoryReport) -> None:
    """A table of nights, the newest last, and the breaches of each below."""
    from concord.flows.cli.plain_tables import figures_table

    table = figures_table(
        *("night", "ended (UTC)", "who", "documents", "labelled", "new", "gone", "changed", "rejects", "drift")
    )
    for night in report.nights:
        line, drift = night.line, night.line.drift
        counts = ["", "", ""] if drift is None else [f"{n:,}" for n in (drift.new, drift.gone, drift.changed)]
        breaches = len(drift.breaches) if drift is not None else 0
        table.add_row(
            f"{line.night}",
            line.time[:16].replace("T", " "),
            line.user,
            *(f"{n:,}" for n in (line.documents, line.labelled)),
            *counts,
            f"{line.rejected:,}",
            f"{breaches}" if breaches else "",
            style="yellow" if breaches or line.failed or line.withheld or line.cancelled else None,
        )
    show(table)
    show(*(line for night in report.nights for line in _lines(night)))
    last = report.nights[-1].line
    show(f"{len(report.nights):,} of {report.kept:,} nights; MLflow's run of the last: {last.mlflow_run}")
    if report.unread:
        say(f"{report.unread:,} lines of the record cannot be read: cut off, or of another version", style="yellow")


def _lines(night: NightReport) -> list[str]:
    """How a night ended before its end, what is gone, what was asked for otherwise than before, and what drifted."""
    changes = ", ".join(f"{name} {_short(old)} → {_short(new)}" for name, (old, new) in night.changed.items())
    drift = night.line.drift
    moved = "" if drift is None else ", ".join(movement.line for movement in drift.breaches)
    failed = f"{night.line.failed:,} shards; nothing was published" if night.line.failed else ""
    missing = "" if drift is None or not drift.missing else drift.told_missing
    if night.line.withheld:
        missing += "; nothing was published"
    cancelled = (
        f"{night.line.labelled:,} documents were labelled, nothing was published" if night.line.cancelled else ""
    )
    parts = {"cancelled": cancelled, "failed": failed, "gone": missing, "asked for": changes, "drift": moved}
    return [f"night {night.line.night}: {what}: {line}" for what, line in parts.items() if line]


def _short(value: str | None) -> str:
    """A value with its digests cut short."""
    return "none" if value is None else DIGEST.sub(lambda found: found[0][:SHOWN_DIGITS], value)


def history(
    *,
    run: RunFolder,
    nights: Annotated[int, typer.Option(min=1, help="Number of nights to show, the last ones.")] = 20,
) -> HistoryReport:
    """Show the runs of an output folder: when, who asked, what was new, skipped, rejected and changed, and drift.

    The folder keeps its last 1,000 runs.
    """
    from concord.flows.nights.history import history as read_history

    return read_history(run, nights=nights)


def show_month(report: MonthReport) -> None:
    """What the runs of a month came to, and where the page is."""
    from concord.flows.screen.pages import month_told

    show(month_told(report), f"page in {report.page}, and as HTML beside it")


MONTH_FORMS = {"out": OptionForm("run"), "into": OptionForm("out", Path, str)}


def monthly(*, request: Annotated[MonthRequest, FieldOptions(MonthRequest, forms=MONTH_FORMS)]) -> MonthReport:
    """Write a page about the runs of a month: counts, drift, and what was asked for otherwise than before."""
    from concord.flows.monthly import monthly as report_month

    return report_month(**request.parameters)
