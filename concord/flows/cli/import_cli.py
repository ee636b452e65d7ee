"""`concord import`: models of other programs. Heavy imports stay inside the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from concord.flows.cli.arguments import ModelOut
from concord.flows.cli.settings_options import FieldOptions
from concord.flows.cli.tree import CommandTree
from concord.flows.progress import show
from concord.schemas.reports import CrfsuiteReport, ScoresReport
from concord.workers.models.settings import ScoresSettings

app = CommandTree(help="Make a model from the model or the scores of another program.")


def _show_scores(report: ScoresReport) -> None:
    show(
        f"{len(report.source)} labels in column {report.column!r}, as {report.form} at temperature "
        f"{report.temperature:g}: {report.types} types of spans"
    )
    if report.joined:
        show(f"{', '.join(report.joined)} are read as the labels of BIO that they stand for", style="yellow")
    show(f"model in {report.out}")


def _show_crfsuite(report: CrfsuiteReport) -> None:
    show(f"{report.attributes:,} attributes, {len(report.labels)} labels")
    show(f"features by {report.features} of {report.package} {report.release}")
    if report.tokenizer:
        show(f"text is cut by {report.tokenizer}")
    if report.word_tables:
        show("each feature depends on one word: scored from word tables")
    else:
        show(f"no word tables: {report.departure}", style="yellow")
    show(f"model in {report.out}; set CONCORD_TRUST={report.trust} to use it")


@app.command(
    epilog="Example: concord import scores labels.txt --column scores --form logits --out models/mine/",
    tells=_show_scores,
)
def scores(
    labels: Annotated[
        Path, typer.Argument(help="Text file of the labels, one on each line, in the order of the scores.")
    ],
    *,
    out: ModelOut,
    transitions: Annotated[
        Path | None,
        typer.Option(
            help="Matrix of transition scores in nats (.npy), one row for each previous label (default: zeros)."
        ),
    ] = None,
    settings: Annotated[dict[str, Any], FieldOptions(ScoresSettings, apart=("labels",))],
) -> ScoresReport:
    """Make a model that reads another tagger's scores from a column of the corpus; `concord calibrate` fits it."""
    from concord.flows.commands.importing import import_scores

    return import_scores(labels, out, settings, transitions=transitions)


@app.command(
    epilog="Example: concord import crfsuite us.crfsuite --feature-function usaddress:tokens2features --out models/us/",
    tells=_show_crfsuite,
)
def crfsuite(
    file: Annotated[Path, typer.Argument(help="Model file that CRFsuite or python-crfsuite has written.")],
    *,
    feature_function: Annotated[
        str,
        typer.Option(
            help="Function that makes the features of a sentence's words, as MODULE:FUNCTION. Its code is run, so "
            "it must be trusted."
        ),
    ],
    tokenizer_function: Annotated[
        str | None,
        typer.Option(
            help="Function that cuts raw text into words, as MODULE:FUNCTION. Its code is run, so it must be trusted."
        ),
    ] = None,
    word_tables: Annotated[
        bool,
        typer.Option(help="Score from tables of words, which is faster, if each feature depends on one word only."),
    ] = True,
    out: ModelOut,
) -> CrfsuiteReport:
    """Make a model from a model file of CRFsuite, with the feature function of the package that it came with."""
    from concord.flows.commands.importing import import_crfsuite

    return import_crfsuite(file, out, feature_function, tokenizer=tokenizer_function, word_tables=word_tables)
