"""`concord init`: files to start with. Heavy imports stay inside the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from concord.flows.cli.arguments import Json, print_json
from concord.flows.cli.tree import CommandTree
from concord.flows.screen.progress import say, show

app = CommandTree()


@app.command(epilog="Example: concord init --out nights/")
def init(
    *,
    out: Annotated[Path, typer.Option(help="Folder for the files; what is in it stays as it is.")],
    as_json: Json = False,
) -> None:
    """Write files to start with: deployments for Prefect, constraints, and the settings of a run. Edit them.

    Nothing is written over.
    """
    from concord.flows.starting import write_start

    written = write_start(out.expanduser())
    if as_json:
        print_json(json.dumps({"written": [str(path) for path in written]}))
        return
    show(*(f"wrote {path}" for path in written))
    say(
        f"edit them; then, in {out}: `concord reprocess --config night.yaml`, and for schedules the top of prefect.yaml"
    )
