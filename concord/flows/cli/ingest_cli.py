"""`concord ingest`: a corpus of files of other forms. Heavy imports stay inside the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from concord.flows.cli.arguments import (
    Json,
    Overwrite,
    Set,
    print_json,
)
from concord.flows.cli.settings_options import FieldOptions
from concord.flows.cli.tree import CommandTree
from concord.flows.inputs.given import Flag, beside_flags
from concord.flows.screen.progress import say, show
from concord.schemas.errors import InputError
from concord.schemas.settings import TextSettings
from concord.workers.corpus.settings import IngestSettings

if TYPE_CHECKING:
    from concord.workers.corpus.ingestion import IngestReport

app = CommandTree()


def _meaning(name: str) -> str:
    """The help text of an option of texts."""
    return TextSettings.model_fields[name].description or ""


@app.command(epilog="Example: concord ingest conll eng.train --out corpora/train/")
def ingest(
    reader: Annotated[str, typer.Argument(help="Format of the source; `concord list readers` has them.")],
    source: Annotated[str, typer.Argument(help="File or folder to read.")],
    *,
    out: Annotated[Path, typer.Option(help="Folder for the corpus.")],
    text_column: Annotated[str | None, typer.Option(help=_meaning("text_column"))] = None,
    id_column: Annotated[str | None, typer.Option(help=_meaning("id_column"))] = None,
    tokens_column: Annotated[str | None, typer.Option(help="Column of tokens (lists of strings).")] = None,
    labels_column: Annotated[str | None, typer.Option(help="Column of gold labels (lists).")] = None,
    set_: Set = None,
    layout: Annotated[IngestSettings, FieldOptions(IngestSettings, apart=("part_bytes",))],
    overwrite: Overwrite = False,
    append: Annotated[
        bool,
        typer.Option("--append", help="Add to a corpus that is there already; documents it has are rejected."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Turn files of other formats into a Parquet corpus; documents that cannot be read become counted rejects."""
    from concord.flows.commands.corpora import first_reason, ingest_corpus
    from concord.flows.inputs.options import OptionError, parse_options
    from concord.schemas.names import unknown
    from concord.workers.corpus.readers.registry import READERS

    if reader not in READERS:
        raise OptionError(unknown("reader", reader, READERS))
    columns = {
        "text_column": Flag("--text-column", text_column),
        "id_column": Flag("--id-column", id_column),
        "tokens_column": Flag("--tokens-column", tokens_column),
        "labels_column": Flag("--labels-column", labels_column),
    }
    pairs = beside_flags(set_ or [], columns)
    report = ingest_corpus(
        reader,
        source,
        out,
        settings=parse_options(pairs, READERS[reader].settings, owner=f"reader {reader}"),
        layout=layout,
        overwrite=overwrite,
        append=append,
    )
    show_ingest(report, out, as_json=as_json)
    if not report.written:
        from concord.workers.corpus.fitting import command_for

        command = command_for(source)
        other = f"; {command} reads it" if command else ""
        raise InputError(f"{source}: nothing in it could be read as {reader}; {first_reason(out.expanduser())}{other}")
    if report.rejected and not as_json:
        say(f"first reject: {first_reason(out.expanduser())}", style="yellow")


def show_ingest(report: IngestReport, out: Path, *, as_json: bool) -> None:
    """Shows what was read and written: for people, or as JSON."""
    if as_json:
        ceiling = None if report.ceiling is None else report.ceiling.f1
        print_json(
            json.dumps(report._asdict() | {"misfits": dict(report.misfits), "ceiling": ceiling, "out": str(out)})
        )
        return
    show(
        f"{report.read:,} documents read, {report.written:,} written ({report.tokens:,} tokens, "
        f"{report.sentences:,} sentences), {report.rejected:,} rejected"
    )
    for reason, spans in report.misfits.items():
        show(f"{spans:,} gold spans {reason}", style="yellow")
    for notice in report.notices:
        say(f"notice: {notice}", style="yellow")
    if report.ceiling is not None:
        show(
            f"ceiling: perfect labels of these tokens have F1 {100 * report.ceiling.f1:.2f} against the "
            "source's own gold"
        )
    show(f"corpus in {out}" + (f", rejects in {out / '_rejects.parquet'}" if report.rejected else ""))
