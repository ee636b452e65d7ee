"""`concord constraints`: what a constraint file does, before it is used. Heavy imports stay inside the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from concord.flows.cli.arguments import Set
from concord.flows.cli.settings_options import FieldOptions
from concord.flows.cli.tree import CommandTree
from concord.flows.commands.requests import CheckRequest, ExplainRequest, MineRequest, WeighRequest
from concord.flows.progress import show
from concord.schemas.audit import CheckReport, Explanation, MineReport, WeighReport

app = CommandTree(help="Find constraints in a corpus, check a file of them, or explain it.")

File = Annotated[Path, typer.Argument(help="YAML file of constraints.")]
NO_RAY = ("context.ray", "context.workers")
"""Options that a command in this process does not have."""


def _show_checked(report: CheckReport) -> None:
    from concord.flows.cli.constraints_tables import check_lines, check_table

    show(check_table(report), *check_lines(report))


def _show_weighed(report: WeighReport) -> None:
    from concord.flows.cli.constraints_tables import weigh_lines, weigh_table

    show(weigh_table(report), *weigh_lines(report))


def _show_mined(report: MineReport) -> None:
    from concord.flows.cli.constraints_tables import helps_table, mine_lines, mine_table

    show(mine_table(report))
    if report.judgement is not None and report.judgement.rules:
        show(helps_table(report.judgement))
    show(*mine_lines(report))


def _show_explained(found: Explanation) -> None:
    from concord.flows.cli.constraints_tables import effects_table, labels_table, summary_line

    show(labels_table(found), effects_table(found), summary_line(found))


@app.command(
    epilog="Example: concord constraints check constraints.yaml --corpus corpora/dev/ --model models/cite/",
    tells=_show_checked,
)
def check(
    file: File,
    *,
    set_: Set = None,
    request: Annotated[CheckRequest, FieldOptions(CheckRequest, apart=NO_RAY)],
) -> CheckReport:
    """Count how often each constraint applies, holds and is broken in gold and in a model's output."""
    from concord.flows.commands.constraints import check_file

    return check_file(file, request, set_ or [])


@app.command(
    epilog="Example: concord constraints weigh rules.yaml --corpus corpora/train/ --out weighed.yaml",
    tells=_show_weighed,
)
def weigh(
    file: File,
    *,
    request: Annotated[WeighRequest, FieldOptions(WeighRequest, apart=NO_RAY)],
    set_: Set = None,
) -> WeighReport:
    """Count what each constraint should cost, on documents with gold labels; tuned: times what helps on others.

    Learned: what corrects the errors of models that are trained as --model was, each on a part of the corpus.

    With --tracking the weights and their intervals are kept in a run of MLflow.
    """
    from concord.flows.commands.weighing import weigh_file

    return weigh_file(file, request, set_ or [])


@app.command(
    epilog="Example: concord constraints mine --corpus corpora/train/ --model models/cite/ --out mined.yaml",
    tells=_show_mined,
)
def mine(*, request: Annotated[MineRequest, FieldOptions(MineRequest)], set_: Set = None) -> MineReport:
    """Find rules about runs of labels that hold more often than chance lets them, and those of them that help a model.

    Rules are counted on Ray. By logic, clauses of several conditions are learned from one part of the documents and
    tried on the others. Which help is judged by cross-validation: models and rules of some folds answer another one.
    """
    from concord.flows.commands.mining import method_named
    from concord.flows.commands.mining import mine as mine_corpus
    from concord.flows.options import parse_options

    owner = f"constraints mine --method {request.method}"
    return mine_corpus(request, parse_options(set_ or [], method_named(request.method).settings, owner=owner))


@app.command(
    epilog="Example: concord constraints explain c.yaml --corpus corpora/dev/ --model models/cite/ --doc dev-7",
    tells=_show_explained,
)
def explain(
    file: File,
    *,
    request: Annotated[ExplainRequest, FieldOptions(ExplainRequest, apart=NO_RAY)],
    set_: Set = None,
) -> Explanation:
    """Show one document's labels with and without each constraint: what each changes and costs."""
    from concord.flows.commands.constraints import explain_document

    return explain_document(file, request, set_ or [])
