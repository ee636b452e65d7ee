"""`concord report`: a run as a page. Heavy imports stay inside the command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from concord.flows.cli.arguments import PromiseFile, RunFolder
from concord.flows.cli.tree import CommandTree
from concord.schemas.reports import RunPageReport

app = CommandTree()


@app.command(epilog="Example: concord report --run out/ --corpus corpora/testa/ --out report.html")
def report(
    *,
    run: RunFolder,
    against: Annotated[
        str | None, typer.Option(help="Folder of another run; the page shows where its answers differ.")
    ] = None,
    corpus: Annotated[
        str | None, typer.Option(help="Parquet corpus with gold labels; the page says what is right and what is wrong.")
    ] = None,
    promise: PromiseFile = None,
    out: Annotated[Path, typer.Option(help="HTML file to write.")],
) -> RunPageReport:
    """Write a run as one page for people: figures in plain words, and a viewer of the documents that changed.

    The page is one file that needs no network, and small whatever the size of the run: it counts all documents, and
    shows the most telling ones. It can be mailed, printed, and opened in MLflow.
    """
    from concord.flows.commands.report import report as write_report

    return write_report(run, out, against=against, corpus=corpus, promise=promise)
