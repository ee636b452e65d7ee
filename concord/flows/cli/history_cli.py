"""`concord history`: the nights of a run's folder. Heavy imports stay inside the command."""

from __future__ import annotations

from typing import Annotated

import typer

from concord.flows.cli.arguments import RunFolder
from concord.flows.cli.tree import CommandTree
from concord.schemas.nights import HistoryReport

app = CommandTree()


@app.command(epilog="Example: concord history --run out/")
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
