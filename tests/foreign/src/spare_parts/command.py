"""A command that looks at a run."""

from __future__ import annotations

from typing import Annotated

import typer

from concord.commands import CommandTree

LONGEST = CommandTree()


@LONGEST.command(epilog="Example: concord longest --run out/")
def longest(*, run: Annotated[str, typer.Option(help="Folder of a finished run.")]) -> None:
    """Show the document of a run that has the most tokens."""
    import concord

    first = max(concord.read_predictions(run), key=lambda document: len(document.tokens))
    typer.echo(f"{first.doc_id}: {len(first.tokens)} tokens")
