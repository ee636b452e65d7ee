"""`concord corpus`: what a corpus holds. Heavy imports stay inside the commands."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

from flows.cli.arguments import Json, Ray, Tracking, Workers, print_json
from flows.cli.failures import reported
from flows.cli.settings_options import takes
from flows.progress import say
from schemas.reports import CorpusReport
from schemas.settings import TextSettings

app = typer.Typer(no_args_is_help=True, help="Look at a corpus: counts of what it holds.")


@app.callback()
def main() -> None:
    """Keeps `stats` a command with a name of its own."""


@app.command(epilog="Example: concord corpus stats corpora/train/ --model models/news/")
@takes(TextSettings)
def stats(
    corpus: Annotated[str, typer.Argument(help="Parquet corpus: a file, a folder or a URI.")],
    *,
    model: Annotated[
        str | None, typer.Option(help="Model folder, or models:/NAME@ALIAS: counts words that it does not know.")
    ] = None,
    ray: Ray = None,
    workers: Workers = None,
    tracking: Tracking = None,
    as_json: Json = False,
    settings: dict[str, Any],
) -> None:
    """Count documents, words, labels, spans and lengths of a corpus on Ray; any number of workers counts the same."""
    with reported():
        from flows.commands.corpus_stats import ShardsUncountedError, corpus_stats

        text = TextSettings.model_validate(settings)
        try:
            report = corpus_stats(corpus, model=model, text=text, ray=ray, workers=workers, tracking=tracking)
        except ShardsUncountedError as error:
            _show(error.report, as_json=as_json)
            raise
        _show(report, as_json=as_json)


def _show(report: CorpusReport, *, as_json: bool) -> None:
    from flows.cli.corpus_tables import corpus_lines, corpus_tables

    if as_json:
        print_json(report.model_dump_json())
        return
    for table in corpus_tables(report):
        Console().print(table)
    for line in corpus_lines(report):
        say(line)
