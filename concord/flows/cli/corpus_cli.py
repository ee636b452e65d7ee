"""`concord corpus`: counts of a corpus. Heavy imports stay inside the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from concord.flows.cli.arguments import ContextOptions, Corpus, Json, ModelName, Set, TextOptions, print_report
from concord.flows.cli.next_steps import after_agreement, say_next
from concord.flows.cli.option_lists import with_options
from concord.flows.cli.tree import CommandTree
from concord.schemas.reports import CorpusReport
from concord.workers.models.settings import AgreementSettings

app = CommandTree(help="Count a corpus: its contents, or a model's labels for its words.")


@app.command(epilog="Example: concord corpus stats --corpus corpora/train/ --model models/news/")
def stats(
    *,
    corpus: Corpus,
    model: Annotated[
        str | None, typer.Option(help="Model (a folder or models:/NAME@ALIAS) whose unknown words are counted.")
    ] = None,
    context: ContextOptions,
    text: TextOptions,
) -> CorpusReport:
    """Count documents, words, labels, spans and lengths of a corpus, on Ray."""
    from concord.flows.commands.corpus_stats import corpus_stats

    return corpus_stats(corpus, model=model, text=text, context=context)


@app.command(
    epilog=with_options(
        "Example: concord corpus agreement --corpus corpora/all/ --model models/news/ --out agreement.parquet",
        AgreementSettings,
    )
)
def agreement(
    *,
    corpus: Corpus,
    model: ModelName,
    out: Annotated[Path, typer.Option(help="Parquet file for the counts.")],
    set_: Set = None,
    context: ContextOptions,
    text: TextOptions,
    as_json: Json = False,
) -> None:
    """Count a model's labels for each word over a whole corpus: a prior for the word in each document."""
    from concord.flows.commands.agreement import agreement as counted
    from concord.flows.inputs.options import parse_options

    chosen = parse_options(set_ or [], AgreementSettings, owner="corpus agreement")
    report = counted(corpus, model, out, chosen, text=text, context=context)
    print_report(report, as_json=as_json)
    if not as_json:
        say_next(after_agreement(corpus, model, report.out))
