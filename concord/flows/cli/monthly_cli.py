"""`concord monthly`: the page of a month. Heavy imports stay inside the command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from concord.flows.cli.settings_options import FieldOptions, OptionForm
from concord.flows.cli.tree import CommandTree
from concord.schemas.nights import MonthReport
from concord.schemas.requests import MonthRequest

app = CommandTree()

MONTH_FORMS = {"out": OptionForm("run"), "into": OptionForm("out", Path, str)}


@app.command(epilog="Example: concord monthly --run out/ --month 2026-10 --out reports/")
def monthly(*, request: Annotated[MonthRequest, FieldOptions(MonthRequest, forms=MONTH_FORMS)]) -> MonthReport:
    """Write a page about the runs of a month: counts, drift, and what was asked for otherwise than before."""
    from concord.flows.monthly import monthly as report_month

    return report_month(request)
