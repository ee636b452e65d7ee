"""`concord history`, `changes`, `rollback`, `monthly`: nights of a run. Heavy imports stay inside the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from concord.flows.cli.arguments import RunFolder
from concord.flows.cli.settings_options import FieldOptions, OptionForm
from concord.schemas.changes import ChangesReport
from concord.schemas.nights import HistoryReport, MonthReport, RollbackReport
from concord.schemas.requests import GONE_HELP, MonthRequest

HISTORY_EXAMPLE = "Example: concord history --run out/"
CHANGES_EXAMPLE = "Example: concord changes --run out/ --since 3"
ROLLBACK_EXAMPLE = "Example: concord rollback --run out/"
MONTHLY_EXAMPLE = "Example: concord monthly --run out/ --month 2026-10 --out reports/"


def history(
    *,
    run: RunFolder,
    nights: Annotated[int, typer.Option(min=1, help="Number of nights to show, the last ones.")] = 20,
    keep: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of runs whose changes stay in the folder, and of versions of its Delta table where it has "
            "one: the last ones; files that only earlier ones have are removed (default: all stay).",
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

    from concord.flows.runfolder.retention import keep_last

    return report.model_copy(update=keep_last(run, keep))


def changes(
    *,
    run: RunFolder,
    since: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Number of a run in the folder; what all runs after it changed is summed, so that a document that "
            "changed and changed back is left out (default: the last run that changed something, alone).",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Parquet file for all documents that changed, in the columns of changes/.")
    ] = None,
) -> ChangesReport:
    """Show which documents are new, gone, or have another text or answer since an earlier run, and why.

    Each run that changes a text or an answer has a number in its folder, and a file in changes/.
    """
    from concord.flows.inputs.output_places import check_output_place
    from concord.flows.nights.changes import changes as read_changes

    if out is not None:
        check_output_place(out, [run], makes=None)
    return read_changes(run, since=since, file=out)


def rollback(
    *,
    run: RunFolder,
    allow_gone: Annotated[bool, typer.Option("--allow-gone", help=GONE_HELP)] = False,
) -> RollbackReport:
    """Give readers the run before the last one again, at once and without labelling.

    The folder keeps one run for that. Its feed of changes and its Delta table go on with what changes; of the run whose
    place it takes nothing is kept. A later run that would give the same answers is withheld, see `concord reprocess
    --allow-again`.
    """
    from concord.flows.nights.rollback import rollback as roll_back

    return roll_back(run, allow_gone=allow_gone)


MONTH_FORMS = {"out": OptionForm("run"), "into": OptionForm("out", Path, str)}


def monthly(*, request: Annotated[MonthRequest, FieldOptions(MonthRequest, forms=MONTH_FORMS)]) -> MonthReport:
    """Write a page about the runs of a month: counts, drift, and what was asked for otherwise than before."""
    from concord.flows.monthly import monthly as report_month

    return report_month(request)
