"""`concord synthesize`: a made-up corpus. Heavy imports stay inside the command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from concord.flows.cli.arguments import (
    Json,
    Overwrite,
)
from concord.flows.cli.ingest_cli import show_ingest
from concord.flows.cli.tree import CommandTree
from concord.workers.corpus.settings import IngestSettings

app = CommandTree()


@app.command(epilog="Example: concord synthesize --documents 2000 --out corpus/")
def synthesize(
    *,
    out: Annotated[Path, typer.Option(help="Folder for the corpus.")],
    documents: Annotated[int, typer.Option(min=1, help="Number of documents to make up.")] = 2000,
    kind: Annotated[Literal["news", "citations"], typer.Option(help="Kind of text to make up.")] = "news",
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the random numbers; the same seed gives the same result.")
    ] = 0,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Make up a corpus with gold labels, of any size."""
    from concord.flows.commands.corpora import synthesize_corpus

    report = synthesize_corpus(
        out, documents=documents, seed=seed, kind=kind, layout=IngestSettings(), overwrite=overwrite
    )
    # Made-up text has no source that its tokens could miss anything of.
    show_ingest(report._replace(ceiling=None), out, as_json=as_json)
