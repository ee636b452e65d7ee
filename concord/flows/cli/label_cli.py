"""`concord label`: the command that people try first. Heavy imports stay inside the command."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from concord.flows.cli.arguments import DeclaredOptions, Json, ModelName, Set, TrackingOption, print_report
from concord.flows.cli.settings_options import FieldOptions
from concord.flows.cli.tree import CommandTree
from concord.flows.screen.progress import say
from concord.schemas.errors import UsageError
from concord.schemas.run import RunSettings

if TYPE_CHECKING:
    from concord.flows.commands.label import RawText

app = CommandTree()

UTF_8 = "utf-8"
OF_CORPORA = (
    *("options", "certificates", "certificate_nodes", "errors_of", "settle"),
    *("text.id_column", "text.text_column", "text.keep_columns"),
)
"""Settings of a run that are no options here: a single text has no use for them, or --set gives them (the engine's)."""


@app.command(epilog='Example: concord label --model models/news/ "Ada Lovelace wrote to Charles Babbage."')
def label(
    text: Annotated[str | None, typer.Argument(help="Text to label (default: --file, or standard input).")] = None,
    *,
    model: ModelName,
    file: Annotated[
        list[Path] | None, typer.Option(help="Text file to label, as one document; may be given many times.")
    ] = None,
    encoding: Annotated[str, typer.Option(help="Encoding of files and standard input, such as latin-1.")] = UTF_8,
    clamp: Annotated[
        list[str] | None,
        typer.Option(
            help="Correction that the answer keeps: START:END=TYPE in tokens, end exclusive, such as 3:5=PER, or "
            "START:END for no entity; may be given many times."
        ),
    ] = None,
    set_: Set = None,
    declared: DeclaredOptions,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the changes and the cost of each constraint.")
    ] = False,
    context: TrackingOption,
    as_json: Json = False,
    settings: Annotated[dict[str, Any], FieldOptions(RunSettings, apart=OF_CORPORA)],
) -> None:
    """Label a text, files or standard input, without a corpus or a cluster; --json prints one object per text.

    At a terminal each line is a text of its own, and is answered at once.
    """
    from concord.flows.commands.label import open_labeller
    from concord.flows.inputs.options import run_settings, text_settings
    from concord.schemas.corrections import parsed_clamp

    corrections = [parsed_clamp(one) for one in clamp or ()]
    one_text = text is not None or len(file or ()) == 1 or not (file or sys.stdin.isatty())
    if corrections and not one_text:
        raise UsageError("--clamp corrects one text; give one text, or one --file")
    chosen = run_settings(settings, set_ or [])
    reading = text_settings(chosen.text, encoding if text is None else UTF_8)
    labeller = open_labeller(
        model,
        constraints=declared.files,
        consistency=declared.consistency,
        settings=chosen,
        context=context,
    )
    for raw in _texts(text, file or []):
        document = labeller.corrected(labeller.read(raw, reading), corrections)
        found = labeller.document(document)
        if explain:
            found = found.model_copy(update={"explanation": labeller.explain(document)})
        print_report(found, as_json=as_json)


def _texts(text: str | None, files: list[Path]) -> Iterator[RawText]:
    """The texts to label. A text on the command line is given as bytes, which need not be UTF-8."""
    from concord.flows.commands.label import RawText, raw_file, raw_stream

    if text is not None and files:
        raise UsageError("give a text or --file, not both")
    if text is not None:
        yield RawText("text", os.fsencode(text))
    elif files:
        yield from map(raw_file, files)
    elif sys.stdin.isatty():
        say("each line is a text of its own; Ctrl-D ends")
        for number, line in enumerate(sys.stdin.buffer, 1):
            if line.strip():
                yield RawText(f"line {number}", line)
    else:
        yield raw_stream(sys.stdin.buffer, "standard input")
