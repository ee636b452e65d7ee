"""`concord list`: all parts that a user can choose. Heavy imports stay inside the command."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from concord.flows.cli.arguments import Json, print_json
from concord.flows.cli.tree import CommandTree
from concord.flows.screen.progress import show
from concord.schemas.errors import UsageError
from concord.schemas.names import unknown

app = CommandTree()

KINDS = {
    "engines": "Engines, which decode documents: `--engine`.",
    "trainers": "Trainers, by which models learn: `train --trainer`.",
    "features": "Feature sets, joined by +: `train --features`.",
    "readers": "Readers, one for each format: `ingest READER`.",
    "writers": "Writers, one for each form of predictions: `export predictions --form`.",
    "tokenizers": "Tokenizers, which cut raw text: `--tokenizer`.",
    "templates": "Templates of constraints, and the keys of their entries.",
    "measures": "Measures of runs against gold: `evaluate --measure`.",
    "penalties": "Penalties, by which constraints get weights: `--penalty`.",
    "methods": "Methods by which constraints are mined: `--method`.",
    "clusters": "Commands that group words into clusters: `concord clusters`.",
    "resources": "Words and encoders of others, whose names stand in the place of files: `train --vectors`.",
}
"""Kinds of parts, and the option that takes a part's name."""


def _completed(incomplete: str) -> list[str]:
    return [kind for kind in KINDS if kind.startswith(incomplete)]


@app.command(epilog="Example: concord list engines certify")
def list_parts(
    kind: Annotated[
        str | None,
        typer.Argument(
            help=f"Kind of part: {', '.join(KINDS)} (default: say what these are).", autocompletion=_completed
        ),
    ] = None,
    name: Annotated[str | None, typer.Argument(help="Name of one part (default: all of the kind).")] = None,
    *,
    as_json: Json = False,
) -> None:
    """List engines, trainers, readers and all other parts, with options, defaults, ranges and meanings."""
    if kind is None:
        if as_json:
            print_json(json.dumps({"kinds": KINDS}))
        else:
            show(*(f"{one:<{max(map(len, KINDS))}}  {meaning}" for one, meaning in KINDS.items()))
        return
    if kind not in KINDS:
        raise UsageError(unknown("kind of part", kind, KINDS))

    from concord.flows.cli.catalogue import show_entries

    show_entries(kind, name, as_json=as_json)
