"""`concord export`: models and predictions for other programs. Heavy imports stay inside the commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from concord.flows.cli.arguments import (
    Json,
    RunFolder,
    Set,
    print_json,
)
from concord.flows.cli.tree import CommandTree
from concord.flows.screen.progress import show
from concord.schemas.reports import ExportReport
from concord.schemas.settings import TextSettings

KEEP_HELP = str(TextSettings.model_fields["keep_columns"].description)

app = CommandTree(help="Write models and predictions for other programs.")


@app.command("crfsuite", epilog="Example: concord export crfsuite --model models/news/ --out news.crfsuite")
def export_crfsuite(
    *,
    model: Annotated[Path, typer.Option(help="Model folder.")],
    out: Annotated[Path, typer.Option(help="File to write.")],
    as_json: Json = False,
) -> None:
    """Write a CRF as a model file of CRFsuite; its attributes are the names of the features."""
    from concord.flows.commands.exporting import export_model

    written = export_model(model, out)
    attributes, labels = len(written.weights.start) - 1, int((~written.missing).sum())
    cost = written.outside_cost
    if as_json:
        print_json(json.dumps({"attributes": attributes, "labels": labels, "out": str(out), "without_cost": cost}))
        return
    show(f"{out}: {attributes:,} attributes, {labels} labels")
    if cost:
        show(f"CRFsuite has no outside cost: without the model's {cost:.4g} nats it names fewer entities")


@app.command(
    "predictions",
    epilog="Example: concord export predictions --run out/ --corpus corpora/testa/ --form doccano --out new.jsonl",
)
def export_predictions(
    *,
    run: RunFolder,
    form: Annotated[str, typer.Option(help="Form of the file; `concord list writers` has them.")],
    out: Annotated[Path, typer.Option(help="File to write; for brat a folder.")],
    corpus: Annotated[
        str | None, typer.Option(help="Corpus of the run, for its texts (default: tokens with blanks between them).")
    ] = None,
    keep_columns: Annotated[
        list[str] | None,
        typer.Option(help=f"{KEEP_HELP.rstrip('.')}; may be given many times."),
    ] = None,
    set_: Set = None,
) -> ExportReport:
    """Write the predictions of a run in the form of another program, with marks at what the constraints changed."""
    from concord.flows.commands.export_predictions import export_predictions as run_export
    from concord.flows.inputs.options import OptionError, parse_options
    from concord.schemas.names import unknown
    from concord.workers.corpus.writers.registry import WRITERS

    if form not in WRITERS:
        raise OptionError(unknown("form", form, WRITERS))
    settings = parse_options(set_ or [], WRITERS[form].settings, owner=f"writer {form}")
    kept = [name for names in keep_columns or () for name in names.split(",")]
    return run_export(run, form, out, settings=settings, corpus=corpus, keep_columns=kept)
