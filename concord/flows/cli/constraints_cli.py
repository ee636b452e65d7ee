"""`concord constraints`: checking, weighing and mining constraints. Heavy imports stay inside the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from concord.flows.cli.arguments import Set
from concord.flows.cli.next_steps import after_proposal
from concord.flows.cli.settings_options import FieldOptions
from concord.flows.cli.tree import CommandTree
from concord.flows.commands.requests import CheckRequest, ExplainRequest, MineRequest, ProposeRequest, WeighRequest
from concord.schemas.audit import CheckReport, Explanation, MineReport, SchemaReport, WeighReport
from concord.schemas.reports import ProposalReport

app = CommandTree(help="Check, weigh and explain a file of constraints, or mine constraints from a corpus.")

File = Annotated[str, typer.Argument(help="YAML file of constraints, a path or URI.")]
NO_RAY = ("context.ray", "context.workers")
"""Options that commands without Ray do not have."""


@app.command(
    epilog="Example: concord constraints check constraints.yaml --corpus corpora/dev/ --model models/cite/",
)
def check(
    file: File,
    *,
    set_: Set = None,
    request: Annotated[CheckRequest, FieldOptions(CheckRequest, apart=NO_RAY)],
) -> CheckReport:
    """Count how often each constraint applies, holds and is broken, in gold labels and in a model's answers.

    With gold, a model and an engine that knows constraints, also what each gains by the measures of the label scheme
    beside all others, and all together.
    """
    from concord.flows.commands.constraints import check_file

    return check_file(file, request, set_ or [])


@app.command(
    epilog="Example: concord constraints weigh rules.yaml --corpus corpora/train/ --out weighed.yaml",
)
def weigh(
    file: File,
    *,
    request: Annotated[WeighRequest, FieldOptions(WeighRequest, apart=NO_RAY)],
    set_: Set = None,
) -> WeighReport:
    """Compute a weight for each constraint of a file, from documents with gold labels.

    Weights are counted (the default); counted, times factors that help the answers of --model on other documents
    (--penalty tuned); or learned from the errors of models that are trained like --model, each on a part of the corpus
    (--penalty learned).

    With --tracking a run of MLflow keeps the weights and their intervals.
    """
    from concord.flows.commands.weighing import weigh_file

    return weigh_file(file, request, set_ or [])


@app.command(
    epilog="Example: concord constraints mine --corpus corpora/train/ --model models/cite/ --out mined.yaml",
)
def mine(
    *, request: Annotated[MineRequest, FieldOptions(MineRequest, apart=("text.keep_columns",))], set_: Set = None
) -> MineReport:
    """Find rules about runs of labels that hold more often than by chance, and the rules among them that help a model.

    --method counting counts rules of known kinds, on Ray; --method logic learns clauses of several conditions from one
    part of the documents and tests them on the others. Cross-validation shows which rules help: models and rules of
    some folds answer another fold.
    """
    from concord.flows.commands.mining import mine as mine_corpus
    from concord.flows.inputs.options import parse_options
    from concord.workers.learning.mining.registry import miner_named

    owner = f"constraints mine --method {request.method}"
    return mine_corpus(request, parse_options(set_ or [], miner_named(request.method).settings, owner=owner))


@app.command(
    epilog="Example: concord constraints explain c.yaml --corpus corpora/dev/ --model models/cite/ --doc dev-7",
)
def explain(
    file: File,
    *,
    request: Annotated[ExplainRequest, FieldOptions(ExplainRequest, apart=NO_RAY)],
    set_: Set = None,
) -> Explanation:
    """Show one document's labels with and without each constraint, and the changes and cost of each."""
    from concord.flows.commands.constraints import explain_document

    return explain_document(file, request, set_ or [])


def _referee(report: ProposalReport) -> list[str]:
    return after_proposal(report.corpus, report.model)


@app.command(
    epilog="Example: concord constraints propose --corpus corpora/dev/ --model models/cite/ --out prompt.md",
    proposes=_referee,
)
def propose(*, request: Annotated[ProposeRequest, FieldOptions(ProposeRequest, apart=NO_RAY)]) -> ProposalReport:
    """Write a prompt for rules: what a model gets wrong, and how a file of constraints is written.

    A language model or a person answers with such a file, and `constraints check` says what its rules are worth.
    Nothing is sent anywhere. Give documents that the model has not learned from.
    """
    from concord.flows.commands.proposing import propose as write_prompt

    return write_prompt(request)


@app.command(epilog="Example: concord constraints schema --out constraints.schema.json")
def schema(*, out: Annotated[Path, typer.Option(help="File for the schema.")]) -> SchemaReport:
    """Write the JSON Schema of constraint files, by which editors complete and check them."""
    from concord.flows.inputs.output_places import check_output_place
    from concord.workers.constraints.file_schema import file_schema_text
    from concord.workers.constraints.templates.registry import TEMPLATES
    from concord.workers.storage.files import write_whole

    check_output_place(out, [], makes=None)
    write_whole(out, file_schema_text().encode())
    return SchemaReport(out=str(out), templates=len(TEMPLATES))
