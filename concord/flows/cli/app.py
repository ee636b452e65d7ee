"""The console script: commands by name, ours and those of other packages. ``concord --help`` answers at once."""

from __future__ import annotations

import logging
from importlib.metadata import version
from typing import Annotated

import typer

from concord.flows.cli.commands import CommandsByName
from concord.flows.cli.failures import exit_codes
from concord.flows.cli.typer_internals import LOOK
from concord.flows.environment import ANY_PROCESSOR, PREFECT, set_for_good
from concord.schemas.distribution import DISTRIBUTION

app = typer.Typer(
    **LOOK,
    name="concord",
    cls=CommandsByName,
    help="Labels the words of document corpora so that the labels agree: with the local evidence, with each other "
    "across a document, and with declared knowledge.",
    epilog=exit_codes(),
)


def _show_version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"concord {version(DISTRIBUTION)}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version, and exit.")
]


@app.callback()
def main(*, _version: Version = False) -> None:
    """Prepares the process, for every command, and takes away what killed ones left among temporary files."""
    from concord.workers.storage.scratch import remove_abandoned

    remove_abandoned()
    set_for_good(ANY_PROCESSOR | PREFECT)  # Prefect's threads speak, and live, longer than a flow's call
    logging.raiseExceptions = False  # what cannot be logged to a server that is gone would stand between our lines
