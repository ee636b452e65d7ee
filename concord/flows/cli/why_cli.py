"""`concord why`: why a document of a run is labelled as it is. Heavy imports stay inside the command."""

from __future__ import annotations

from typing import Annotated

import typer

from concord.flows.cli.arguments import RunFolder, TrackingOption
from concord.flows.cli.tree import CommandTree
from concord.schemas.why import WhyReport

app = CommandTree()


@app.command(epilog="Example: concord why --run out/ --doc news-3 --span 3:5")
def why(
    *,
    run: RunFolder,
    doc: Annotated[str, typer.Option(help="Id of the document to explain.")],
    span: Annotated[
        str | None,
        typer.Option(help="Tokens to explain: A:B, end exclusive (default: each entity that the constraints changed)."),
    ] = None,
    corpus: Annotated[str | None, typer.Option(help="Corpus of the run, where it has moved.")] = None,
    model: Annotated[str | None, typer.Option(help="Model of the run, where it has moved.")] = None,
    constraints: Annotated[
        list[str] | None, typer.Option(help="YAML file of constraints, a path or URI; may be given many times.")
    ] = None,
    context: TrackingOption,
) -> WhyReport:
    """Explain an entity of a run: its margin, its rivals, what speaks for it and against it, the same words elsewhere.

    All figures are in nats, and add up: what the model and each constraint say for the answer, against the nearest
    rival. Model, corpus and constraints are read from where the run had them.
    """
    from concord.flows.commands.why import Moved, parsed_span
    from concord.flows.commands.why import why as explain_span

    tokens = None if span is None else parsed_span(span)
    moved = Moved(corpus, model, None if constraints is None else tuple(constraints))
    return explain_span(run, doc, span=tokens, moved=moved, context=context)
