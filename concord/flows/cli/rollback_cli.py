"""`concord rollback`: the run before the last one, given back. Heavy imports stay inside the command."""

from __future__ import annotations

from typing import Annotated

import typer

from concord.flows.cli.arguments import RunFolder
from concord.flows.cli.tree import CommandTree
from concord.schemas.nights import RollbackReport
from concord.schemas.requests import GONE_HELP

app = CommandTree()


@app.command(epilog="Example: concord rollback --run out/")
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
