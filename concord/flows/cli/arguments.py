"""Options of several commands, and the printing of reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from concord.flows.cli.settings_options import FieldOptions
from concord.flows.screen.progress import Terminal
from concord.flows.screen.terminal import show_report
from concord.schemas.requests import CORPUS_HELP, MODEL_HELP, RUN_HELP
from concord.schemas.run_context import RunContext
from concord.schemas.settings import Settings, TextSettings
from concord.schemas.shown import Report
from concord.schemas.visible import visible_json


class Declared(Settings):
    """Constraints: files of declared ones, and the label consistency of the model."""

    constraints: Annotated[
        list[str] | None, typer.Option(help="YAML file of constraints, a path or URI; may be given many times.")
    ] = None
    consistency: Annotated[bool, typer.Option(help="Use the label consistency that was trained with the model.")] = True

    @property
    def files(self) -> list[str]:
        """The files of constraints."""
        return self.constraints or []


DeclaredOptions = Annotated[Declared, FieldOptions(Declared)]
ContextOptions = Annotated[RunContext, FieldOptions(RunContext)]
RayOptions = Annotated[RunContext, FieldOptions(RunContext, apart=("tracking",))]
TrackingOption = Annotated[RunContext, FieldOptions(RunContext, apart=("ray", "workers"))]
TextOptions = Annotated[TextSettings, FieldOptions(TextSettings, apart=("keep_columns",))]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables and lines.")]
Corpus = Annotated[str, typer.Option(help=CORPUS_HELP)]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Further option: of the engine, trainer, reader or method in use (see `concord list`), or one that is "
        "listed below. The value is as in YAML; may be given many times.",
    ),
]
AnswersFile = Annotated[
    str, typer.Argument(help="File or folder of the tagger's answers: documents with entities, in any form.")
]
AnswersForm = Annotated[
    str,
    typer.Option(
        help="Reader of the answers; `concord list readers` has them. 'spans' reads JSON of taggers, services, "
        "language models and annotation tools, brat and .spacy."
    ),
]
LabelMap = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="THEIRS=YOURS",
        help="Your name for a label of the tagger, such as COMPANY=ORG, or several that it is above, such as "
        "ENT=PER,ORG; O leaves it out. May be given many times.",
    ),
]
ModelName = Annotated[str, typer.Option("--model", help=MODEL_HELP)]
ModelOut = Annotated[Path, typer.Option(help="Folder for the model.")]
PromiseFile = Annotated[
    Path | None,
    typer.Option(help="File promise.json of `concord review`, which is recomputed from its answers and the run's."),
]
RunFolder = Annotated[str, typer.Option("--run", help=RUN_HELP)]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a corpus that is there already.")]


def print_json(text: str) -> None:
    """Prints a JSON text in one line; letters are not escaped."""
    try:
        typer.echo(visible_json(json.dumps(json.loads(text), ensure_ascii=False)))
    except BrokenPipeError:
        Terminal().on_broken_pipe()


def print_report(report: Report, *, as_json: bool) -> None:
    """Prints what a report says, or the report as JSON."""
    if as_json:
        print_json(report.model_dump_json())
    else:
        show_report(report)
