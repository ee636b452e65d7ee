"""`concord list`: all parts that a user can choose. Heavy imports stay inside the commands."""

from __future__ import annotations

from collections.abc import Callable

from concord.flows.cli.arguments import Json
from concord.flows.cli.tree import CommandTree

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
}
"""Help of each list: the kind of part, and the option that takes its name."""

app = CommandTree(
    help="List engines, trainers, readers and all other parts, with options, defaults, ranges and meanings."
)


def _lister(kind: str) -> Callable[..., None]:
    def command(*, as_json: Json = False) -> None:
        from concord.flows.cli.catalogue import show_entries

        show_entries(kind, as_json=as_json)

    return command


for name, help_text in KINDS.items():
    app.command(name, help=help_text, epilog=f"Example: concord list {name}")(_lister(name))
