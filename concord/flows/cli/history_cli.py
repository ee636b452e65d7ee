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
) -> HistoryReport:
    """Show the runs of an output folder: when, who asked, what was new, skipped, rejected and changed, and drift.

    The folder keeps its last 1,000 runs.
    """
    from concord.flows.nights.history import history as read_history

    return read_history(run, nights=nights)


MONTH_FORMS = {"out": OptionForm("run"), "into": OptionForm("out", Path, str)}


def monthly(*, request: Annotated[MonthRequest, FieldOptions(MonthRequest, forms=MONTH_FORMS)]) -> MonthReport:
    """Write a page about the runs of a month: counts, drift, and what was asked for otherwise than before."""
    from concord.flows.monthly import monthly as report_month

    return report_month(**request.parameters)
