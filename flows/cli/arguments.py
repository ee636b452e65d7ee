"""Options that several commands take, and the one way to answer with JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from concord.flows.cli.settings_options import FieldOptions
from concord.flows.commands.requests import CORPUS, MODEL
from concord.flows.run_context import RunContext
from concord.schemas.settings import Settings, TextSettings
from concord.schemas.visible import visible_json


class Declared(Settings):
    """Constraints beside the model: files of declared ones, and its label consistency."""

    constraints: Annotated[
        list[Path] | None, typer.Option(help="YAML file of constraints; may be given many times.")
    ] = None
    consistency: Annotated[bool, typer.Option(help="Use the label consistency that was trained with the model.")] = True

    @property
    def files(self) -> list[str]:
        """The files of constraints."""
        return [str(path) for path in self.constraints or []]


DeclaredOptions = Annotated[Declared, FieldOptions(Declared)]
ContextOptions = Annotated[RunContext, FieldOptions(RunContext)]
RayOptions = Annotated[RunContext, FieldOptions(RunContext, apart=("tracking",))]
TrackingOption = Annotated[RunContext, FieldOptions(RunContext, apart=("ray", "workers"))]
TextOptions = Annotated[TextSettings, FieldOptions(TextSettings)]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output instead of tables and lines.")]
Corpus = Annotated[str, typer.Option(help=CORPUS)]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting, its value as in YAML; may be given many times."),
]
ModelName = Annotated[str, typer.Option("--model", help=MODEL)]
ModelOut = Annotated[Path, typer.Option(help="Folder for the model.")]
RunFolder = Annotated[str, typer.Option("--run", help="Folder of a finished run of `concord reprocess`.")]
ShardKib = Annotated[
    int, typer.Option(min=1, help="Rough size of a shard, in KiB of text. Give less for few documents that take long.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a corpus that is there already.")]


def print_json(text: str) -> None:
    """A JSON text on standard output, in one line and with its letters as they are."""
    typer.echo(visible_json(json.dumps(json.loads(text), ensure_ascii=False)))
