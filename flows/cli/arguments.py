"""Options that several commands take, and the one way to answer with JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from concord.flows.cli.settings_options import FieldOptions
from concord.flows.run_context import RunContext
from concord.schemas.settings import Settings, TextSettings, Validation
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
Corpus = Annotated[str, typer.Option(help="Parquet corpus: a file, a folder or a URI such as s3://bucket/corpus.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting, its value as in YAML; may be given many times."),
]
ModelName = Annotated[str, typer.Option("--model", help="Model: a folder, or models:/NAME@ALIAS in MLflow's registry.")]
ModelOut = Annotated[Path, typer.Option(help="Folder for the model.")]
EngineOption = Annotated[str, typer.Option(help="Engine that decodes the documents; `concord list engines` has them.")]
RunFolder = Annotated[str, typer.Option("--run", help="Folder of a finished run of `concord reprocess`.")]
Seed = Annotated[
    int, typer.Option(min=0, help="Seed of the random numbers; beside the document's id the only source of chance.")
]
ShardKib = Annotated[
    int, typer.Option(min=1, help="Rough size of a shard, in KiB of text. Give less for few documents that take long.")
]
JUDGING = (
    "Documents that judge what is chosen: random ones, by their ids, or the last ones of the corpus, in the order of "
    "files and rows."
)
Judging = Annotated[Validation, typer.Option("--validation", help=JUDGING)]
JudgingIfAny = Annotated[Validation | None, typer.Option("--validation", help=f"{JUDGING} Default: random ones.")]
Documents = Annotated[int, typer.Option(min=1, help="Largest number of documents to look at.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a corpus that is there already.")]


def print_json(text: str) -> None:
    """A JSON text on standard output, in one line and with its letters as they are."""
    typer.echo(visible_json(json.dumps(json.loads(text), ensure_ascii=False)))
