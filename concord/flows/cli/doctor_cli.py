"""`concord doctor`: is everything there that a run needs? Heavy imports stay inside the command."""

from __future__ import annotations

from typing import Annotated

import typer

from concord.flows.cli.arguments import Json, print_report
from concord.flows.cli.failures import Exit
from concord.flows.cli.settings_options import FieldOptions
from concord.flows.cli.tree import CommandTree
from concord.schemas.run_context import RunContext

app = CommandTree()


@app.command(epilog="Example: concord doctor --out out/")
def doctor(
    *,
    out: Annotated[str, typer.Option(help="Folder or URI that runs write to.")] = ".",
    context: Annotated[RunContext, FieldOptions(RunContext, apart=("workers",))],
    as_json: Json = False,
) -> None:
    """Look at what a run needs: versions, kernels, disks, clocks, Ray, Prefect and MLflow.

    Each line says that it is well, or what is wrong and what to do; the exit code is 3 then. Nothing is started.
    """
    from concord.flows.commands.doctor import doctor as examine

    report = examine(out, context)
    print_report(report, as_json=as_json)
    if report.wrong:
        raise typer.Exit(Exit.INPUT)
