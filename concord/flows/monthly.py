"""The monthly report: the nights of an output folder, as a page."""

from __future__ import annotations

from concord.flows.inputs.jobs import folder_place, run_place
from concord.flows.inputs.output_places import check_output_place
from concord.flows.watched import watched
from concord.schemas.nights import MonthReport
from concord.schemas.requests import MonthRequest


@watched("monthly", MonthRequest, run_name="{out}")
def monthly(request: MonthRequest) -> MonthReport:
    """Writes what the runs of an output folder came to in a month, as Markdown and HTML, into the folder ``into``.

    Raises `UsageError` for what is no month, `RunFolderError` where no run is recorded, and `OutputError`.
    """
    run, folder = run_place(request.out), folder_place(request.into)
    check_output_place(folder, [run], makes=None)

    from concord.flows.nights.month import report_month

    return report_month(run, folder, request.month)
