"""`concord doctor`: is everything there that a run needs? Heavy imports stay inside the command."""

from __future__ import annotations

from typing import Annotated

import typer

from concord.flows.cli.arguments import Json, print_json
from concord.flows.cli.failures import Exit
from concord.flows.cli.settings_options import FieldOptions
from concord.flows.screen.progress import show
from concord.schemas.run_context import RunContext

DOCTOR_EXAMPLE = "Example: concord doctor --out out/"


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
    if as_json:
        print_json(report.model_dump_json())
    else:
        for finding in report.findings:
            state = "ok   " if finding.remedy is None else "WRONG"
            remedy = "" if finding.remedy is None else f"; {finding.remedy}"
            show(f"{state}  {finding.name}: {finding.told}{remedy}", style="red" if remedy else None)
    if report.wrong:
        raise typer.Exit(Exit.INPUT)
