"""`concord verify`: a finished run checked. Heavy imports stay inside the command."""

from __future__ import annotations

import typer

from concord.flows.cli.arguments import (
    Json,
    PromiseFile,
    RunFolder,
    TrackingOption,
    print_report,
)
from concord.flows.cli.failures import Exit
from concord.flows.cli.tree import CommandTree

app = CommandTree()


@app.command(epilog="Example: concord verify --run out/")
def verify(
    *,
    run: RunFolder,
    promise: PromiseFile = None,
    context: TrackingOption,
    as_json: Json = False,
) -> None:
    """Check a finished run: recompute all numbers, find all documents, and confirm all bounds with a certificate.

    With --promise nothing else is checked.
    """
    if promise is not None:
        from concord.flows.commands.review_promise import check_promise

        checked = check_promise(run, promise)
        print_report(checked, as_json=as_json)
        if checked.fault is not None:
            raise typer.Exit(Exit.INPUT)
        return
    from concord.flows.commands.verify import verify as run_verify

    report = run_verify(run, context)
    print_report(report, as_json=as_json)
    if report.failed:
        raise typer.Exit(Exit.INPUT)
