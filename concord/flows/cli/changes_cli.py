"""`concord changes`: which documents changed between runs. Heavy imports stay inside the command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from concord.flows.cli.arguments import RunFolder
from concord.flows.cli.tree import CommandTree
from concord.schemas.changes import ChangesReport

app = CommandTree()


@app.command(epilog="Example: concord changes --run out/ --since 3")
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
