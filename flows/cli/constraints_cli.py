"""`concord constraints`: what a constraint file does, before it is used. Heavy imports stay inside the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from concord.flows.cli.arguments import (
    ContextOptions,
    Corpus,
    Documents,
    EngineOption,
    JudgingIfAny,
    ModelName,
    Seed,
    Set,
    TextOptions,
    TrackingOption,
)
from concord.flows.cli.tree import CommandTree
from concord.flows.progress import show
from concord.schemas.audit import CheckReport, Explanation, MineReport, WeighReport
from concord.schemas.run import ENGINE

app = CommandTree(help="Find constraints in a corpus, check a file of them, or explain it.")

File = Annotated[Path, typer.Argument(help="YAML file of constraints.")]
PenaltyOption = Annotated[
    str,
    typer.Option(help="Formula for the price of a broken row; `concord list penalties` has them."),
]


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
    corpus: Corpus,
    model: Annotated[
        str | None, typer.Option(help="Model, a folder or models:/NAME@ALIAS, whose answers are checked too.")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="Engine that decodes the model's answers; viterbi shows them without constraints.")
    ] = ENGINE,
    set_: Set = None,
    documents: Documents = 1000,
    conflicts: Annotated[
        int, typer.Option(min=0, help="Number of documents that are searched for contradictions.")
    ] = 50,
    seed: Seed = 0,
    context: TrackingOption,
) -> CheckReport:
    """Count how often each constraint applies, holds and is broken in gold and in a model's output."""
    from concord.flows.commands.constraints import EngineChoice, check_file

    return check_file(
        file,
        corpus,
        EngineChoice(engine, set_ or [], seed),
        model=model,
        documents=documents,
        conflict_documents=conflicts,
        context=context,
    )


@app.command(
    epilog="Example: concord constraints weigh rules.yaml --corpus corpora/train/ --out weighed.yaml",
    tells=_show_weighed,
)
def weigh(
    file: File,
    *,
    corpus: Corpus,
    out: Annotated[Path | None, typer.Option(help="New YAML file: the same constraints with these weights.")] = None,
    penalty: PenaltyOption = "odds",
    set_: Set = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="With `--penalty tuned`: the model whose answers are scored. With `learned`: the model whose "
            "settings are reused to train one model per fold."
        ),
    ] = None,
    held_out: Annotated[
        str | None,
        typer.Option(
            help="With `--penalty tuned`: the labelled corpus that factors are chosen on, which neither the counts "
            "nor the model have seen."
        ),
    ] = None,
    validation: JudgingIfAny = None,
    seed: Seed = 0,
    context: TrackingOption,
) -> WeighReport:
    """Count what each constraint should cost, on documents with gold labels; tuned: times what helps on others.

    Learned: what corrects the errors of models that are trained as --model was, each on a part of the corpus.

    With --tracking the weights and their intervals are kept in a run of MLflow.
    """
    from concord.flows.commands.weighing import WeighRequest, weigh_file

    request = WeighRequest(
        file=file,
        corpus=corpus,
        penalty=penalty,
        options=tuple(set_ or ()),
        out=out,
        model=model,
        held_out=held_out,
        validation=validation,
        seed=seed,
        context=context,
    )
    return weigh_file(request)


@app.command(
    epilog="Example: concord constraints mine --corpus corpora/train/ --model models/cite/ --out mined.yaml",
    tells=_show_mined,
)
def mine(
    *,
    corpus: Corpus,
    out: Annotated[Path, typer.Option(help="YAML file for the rules that help; with --all, for all that hold.")],
    model: Annotated[
        str | None,
        typer.Option(
            help="Model, a folder or models:/NAME@ALIAS. Rules are judged beside models that are trained as it was."
        ),
    ] = None,
    write_all: Annotated[
        bool, typer.Option("--all", help="Write all rules that hold. Without --model none is judged.")
    ] = False,
    method: Annotated[
        str, typer.Option(help="Method by which rules are found; `concord list methods` has them.")
    ] = "counting",
    penalty: PenaltyOption = "odds",
    set_: Set = None,
    validation: JudgingIfAny = None,
    seed: Seed = 0,
    context: ContextOptions,
    text: TextOptions,
) -> MineReport:
    """Find rules about runs of labels that hold more often than chance lets them, and those of them that help a model.

    Rules are counted on Ray. By logic, clauses of several conditions are learned from one part of the documents and
    tried on the others. Which help is judged by cross-validation: models and rules of some folds answer another one.
    """
    from concord.flows.commands.mining import MineRequest, method_named
    from concord.flows.commands.mining import mine as mine_corpus
    from concord.flows.options import parse_options

    request = MineRequest(
        corpus=corpus,
        out=out,
        method=method,
        penalty=penalty,
        model=model,
        write_all=write_all,
        validation=validation,
        seed=seed,
        text=text,
        context=context,
    )
    owner = f"constraints mine --method {method}"
    return mine_corpus(request, parse_options(set_ or [], method_named(method).settings, owner=owner))


@app.command(
    epilog="Example: concord constraints explain c.yaml --corpus corpora/dev/ --model models/cite/ --doc dev-7",
    tells=_show_explained,
)
def explain(
    file: File,
    *,
    corpus: Corpus,
    model: ModelName,
    doc: Annotated[str, typer.Option(help="Id of the document.")],
    engine: EngineOption = ENGINE,
    set_: Set = None,
    seed: Seed = 0,
    context: TrackingOption,
) -> Explanation:
    """Show one document's labels with and without each constraint: what each changes and costs."""
    from concord.flows.commands.constraints import EngineChoice, explain_document

    choice = EngineChoice(engine, set_ or [], seed)
    return explain_document(file, corpus, doc, choice, model=model, context=context)
