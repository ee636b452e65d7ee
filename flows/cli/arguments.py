"""Options that several commands take, and the one way to answer with JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from concord.schemas.visible import visible_json

Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output, everything else elsewhere.")]
Corpus = Annotated[str, typer.Option(help="Parquet corpus: a file, a folder or a URI such as s3://bucket/corpus.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting, its value as in YAML; may be given many times."),
]
Tracking = Annotated[
    str | None,
    typer.Option(help="MLflow tracking URI; otherwise MLFLOW_TRACKING_URI, otherwise SQLite in .concord/."),
]
ModelName = Annotated[str, typer.Option("--model", help="Model folder, or models:/NAME@ALIAS in the registry.")]
Engine = Annotated[str, typer.Option(help="How documents are decoded; `concord list engines` has them.")]
RunFolder = Annotated[str, typer.Option("--run", help="Folder of a finished run of `concord reprocess`.")]
Constraints = Annotated[list[Path] | None, typer.Option(help="YAML file of constraints; many are joined.")]
Consistency = Annotated[bool, typer.Option(help="Use the label consistency trained with the model.")]
Seed = Annotated[int, typer.Option(min=0, help="With the document's id the only source of chance.")]
Ray = Annotated[str | None, typer.Option(help="Address of a Ray cluster; otherwise this machine.")]
ShardKib = Annotated[
    int, typer.Option(min=1, help="KiB of text a shard, about; less for few documents that take long.")
]
Workers = Annotated[int | None, typer.Option(min=1, help="Ray actors; otherwise one a CPU.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a corpus that is there already.")]


def print_json(text: str) -> None:
    """A JSON text on standard output, in one line and with its letters as they are."""
    typer.echo(visible_json(json.dumps(json.loads(text), ensure_ascii=False)))
