"""`concord history` and `monthly`: the nights of an output folder. Heavy imports stay inside the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from concord.flows.cli.arguments import RunFolder
from concord.flows.cli.settings_options import FieldOptions, OptionForm
from concord.schemas.nights import HistoryReport, MonthReport
from concord.schemas.requests import MonthRequest

HISTORY_EXAMPLE = "Example: concord history --run out/"
MONTHLY_EXAMPLE = "Example: concord monthly --run out/ --month 2026-10 --out reports/"


def history(
    *,
    run: RunFolder,
    nights: Annotated[int, typer.Option(min=1, help="Number of nights to show, the last ones.")] = 20,
    keep: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of versions of the folder's Delta table to keep, the last ones; files that only earlier ones "
            "have are removed (default: all versions stay).",
        ),
    ] = None,
) -> HistoryReport:
    """Show the runs of an output folder: when, who asked, what was new, skipped, rejected and changed, and drift.

    The folder keeps its last 1,000 runs.
    """
    from concord.flows.nights.history import history as read_history

    report = read_history(run, nights=nights)
    if keep is None:
        return report

    from concord.flows.runfolder.delta_table import keep_versions
    from concord.flows.runfolder.runfolder import run_output

    out = run_output(run)
    with out.exclusive():
        return report.model_copy(update={"table": keep_versions(out.storage, keep)})


MONTH_FORMS = {"out": OptionForm("run"), "into": OptionForm("out", Path, str)}


def monthly(*, request: Annotated[MonthRequest, FieldOptions(MonthRequest, forms=MONTH_FORMS)]) -> MonthReport:
    """Write a page about the runs of a month: counts, drift, and what was asked for otherwise than before."""
    from concord.flows.monthly import monthly as report_month

    return report_month(**request.parameters)
