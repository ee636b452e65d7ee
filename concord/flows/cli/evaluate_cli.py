"""`concord evaluate`: a run scored against gold. Heavy imports stay inside the command."""

from __future__ import annotations

from typing import Annotated

import typer

from concord.flows.cli.arguments import RunFolder
from concord.flows.cli.tree import CommandTree
from concord.flows.screen.progress import say
from concord.schemas.reports import EvaluationReport

app = CommandTree()


@app.command(epilog="Example: concord evaluate --run out/ --corpus corpora/testa/ --against out-viterbi/")
def evaluate(
    *,
    run: RunFolder,
    corpus: Annotated[str, typer.Option(help="Parquet corpus with gold labels.")],
    measure: Annotated[
        list[str] | None,
        typer.Option(
            help="Measure to count: labels, tokens, spans, offsets, documents, lines or characters; may be given many "
            "times."
        ),
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="Folder of another run to compare with: differences, intervals and p-values.")
    ] = None,
) -> EvaluationReport:
    """Score predictions against gold, show the changes against Viterbi, and compare with another run.

    Measures: labels of tokens (labels), tokens by field or type (tokens), entities or fields as conlleval counts them
    (spans), entities of the source by characters (offsets; those that tokens cannot express are missed), whole
    documents (documents), and the overlap of fields in lines (lines) and in characters (characters). The default is
    spans for BIO, and labels, spans and documents for other labels; and offsets, if the corpus has spans of its source.
    """
    from concord.flows.labelling.evaluate import evaluate as run_evaluate

    evaluation = run_evaluate(run, corpus, measures=measure, against=against)
    for folder, shards in evaluation.unfinished.items():
        say(
            f"{folder}: a later run is not finished ({shards} of its shards are done); "
            "these are the scores of the last whole one",
            style="yellow",
        )
    return evaluation.report
