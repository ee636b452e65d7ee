"""`concord corpus`: counts of a corpus. Heavy imports stay inside the commands."""

from __future__ import annotations

from typing import Annotated

import typer

from concord.flows.cli.arguments import ContextOptions, Corpus, TextOptions
from concord.flows.cli.tree import CommandTree
from concord.schemas.reports import CorpusReport

app = CommandTree(help="Count what a corpus has.")


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
