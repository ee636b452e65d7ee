"""Options that several commands take, and the one way to answer with JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from concord.schemas.settings import Validation
from concord.schemas.visible import visible_json

Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output instead of tables and lines.")]
Corpus = Annotated[str, typer.Option(help="Parquet corpus: a file, a folder or a URI such as s3://bucket/corpus.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting, its value as in YAML; may be given many times."),
]
TrackingOption = Annotated[
    str | None,
    typer.Option(help="MLflow tracking URI (default: MLFLOW_TRACKING_URI, or SQLite in .concord/)."),
]
ModelName = Annotated[str, typer.Option("--model", help="Model: a folder, or models:/NAME@ALIAS in MLflow's registry.")]
EngineOption = Annotated[str, typer.Option(help="Engine that decodes the documents; `concord list engines` has them.")]
RunFolder = Annotated[str, typer.Option("--run", help="Folder of a finished run of `concord reprocess`.")]
ConstraintsOption = Annotated[
    list[Path] | None, typer.Option(help="YAML file of constraints; may be given many times.")
]
Consistency = Annotated[bool, typer.Option(help="Use the label consistency that was trained with the model.")]
Seed = Annotated[
    int, typer.Option(min=0, help="Seed of the random numbers; beside the document's id the only source of chance.")
]
Ray = Annotated[str | None, typer.Option(help="Address of a Ray cluster (default: this machine).")]
ShardKib = Annotated[
    int, typer.Option(min=1, help="Rough size of a shard, in KiB of text. Give less for few documents that take long.")
]
Workers = Annotated[int | None, typer.Option(min=1, help="Number of Ray actors (default: one for each CPU).")]
JUDGING = (
    "Documents that judge what is chosen: random ones, by their ids, or the last ones of the corpus, in the order of "
    "files and rows."
)
Judging = Annotated[Validation, typer.Option("--validation", help=JUDGING)]
JudgingIfAny = Annotated[Validation | None, typer.Option("--validation", help=f"{JUDGING} Default: random ones.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a corpus that is there already.")]


def print_json(text: str) -> None:
    """A JSON text on standard output, in one line and with its letters as they are."""
    typer.echo(visible_json(json.dumps(json.loads(text), ensure_ascii=False)))
