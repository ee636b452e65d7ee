"""`concord review`: a part of a run is read, and what may be promised of the rest. Heavy imports stay inside."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from concord.flows.cli.arguments import RunFolder
from concord.flows.cli.settings_options import FieldOptions
from concord.flows.cli.tree import CommandTree
from concord.schemas.errors import UsageError
from concord.schemas.review import ReviewPromise, ReviewTasks
from concord.schemas.settings import Settings

if TYPE_CHECKING:
    from concord.flows.commands.review_fit import LabelledRun

app = CommandTree(help="Read a part of a run, and be told what may be promised of the rest.")

ReviewFolder = Annotated[Path, typer.Option("--out", help="Folder of the review; it goes on where it stopped.")]
TaskForm = Annotated[
    str, typer.Option("--form", help="Form of the tasks: page (for a browser), labelstudio, argilla, prodigy or csv.")
]


class ReviewOptions(Settings):
    """What is promised, and of what; settled when a review begins."""

    error: Annotated[
        str | None, typer.Option(help="Share of wrong ones that is not to be exceeded, such as 5% (the default).")
    ] = None
    certainty: Annotated[
        str | None, typer.Option(help="Probability with which a promise holds, such as 95% (the default).")
    ] = None
    by: Annotated[
        Literal["entity", "document", "sentence"] | None,
        typer.Option("--unit", help="What is read and promised (default: entity); sentence: those without an entity."),
    ] = None
    whole: Annotated[
        str | None,
        typer.Option(help="Share of the run, the least sure, to read and mend first, so that the whole is promised."),
    ] = None
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the random numbers; the same seed gives the same result.")
    ] = None
    fit_run: Annotated[
        str | None, typer.Option(help="Run over labelled documents, to which the predicted errors are fitted.")
    ] = None
    fit_corpus: Annotated[str | None, typer.Option(help="Parquet corpus with the gold labels of these.")] = None

    @property
    def options(self) -> Mapping[str, Any]:
        """Fields of `ReviewRequest` that were asked for. Raises `UsageError`."""
        shares = {name: share(name, getattr(self, name)) for name in ("error", "certainty", "whole")}
        return {k: v for k, v in (shares | {"by": self.by, "seed": self.seed}).items() if v is not None}

    @property
    def labelled(self) -> LabelledRun | None:
        """What predicted errors are fitted to. Raises `UsageError` where half of it is missing."""
        from concord.flows.commands.review_fit import LabelledRun

        return LabelledRun.of(self.fit_run, self.fit_corpus)


Chosen = Annotated[ReviewOptions, FieldOptions(ReviewOptions)]


def share(name: str, typed: str | None) -> float | None:
    """A share as it is typed: 5% or 0.05; None where it is not given. Raises `UsageError`."""
    if typed is None:
        return None
    from decimal import Decimal, InvalidOperation

    try:
        number = Decimal(typed.strip().removesuffix("%"))
    except InvalidOperation:
        raise UsageError(f"--{name} {typed}: want a share, such as 5% or 0.05") from None
    if not number.is_finite():
        raise UsageError(f"--{name} {typed}: want a share, such as 5% or 0.05")
    return float(number / 100 if "%" in typed else number)


@app.command(epilog="Example: concord review read --run out/ --error 5% --certainty 95% --out review/")
def read(*, run: RunFolder, out: ReviewFolder, chosen: Chosen) -> ReviewPromise:
    """Read what a run says, one by one at a terminal, and be told after each answer what may be promised by now.

    Keys: r right, w wrong (then the right type), s skip (counts as wrong), u undo, q quit. The same command goes on.
    """
    from concord.flows.commands.review_terminal import read_on, single_keys
    from concord.flows.commands.reviewing import check_review_place, open_review

    check_review_place(out, [run, chosen.fit_run, chosen.fit_corpus])
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("`concord review read` needs a terminal; elsewhere take `concord review tasks` and `answers`")
    with open_review(run, out, chosen.options, labelled=chosen.labelled) as review:
        with single_keys() as (key, ask):
            read_on(review, key=key, ask=ask)
        return review.write()


@app.command(epilog="Example: concord review tasks --run out/ --out review/ --form labelstudio --tasks tasks.json")
def tasks(
    *,
    run: RunFolder,
    out: ReviewFolder,
    form: TaskForm,
    tasks_file: Annotated[Path, typer.Option("--tasks", help="File of the tasks.")],
    count: Annotated[int, typer.Option(min=1, help="Number of tasks.")] = 100,
    chosen: Chosen,
) -> ReviewTasks:
    """Write what is to be read next as tasks for an annotation tool, the least sure first."""
    from concord.flows.commands.review_tasks import check_task_form, write_tasks
    from concord.flows.commands.reviewing import check_review_place, open_review
    from concord.flows.inputs.output_places import check_inputs

    read_places = [run, chosen.fit_run, chosen.fit_corpus]
    check_review_place(out, read_places)
    check_inputs(tasks_file, read_places, option="--tasks")
    check_task_form(form)
    with open_review(run, out, chosen.options, labelled=chosen.labelled) as review:
        return write_tasks(review, form, tasks_file, count=count)


@app.command(epilog="Example: concord review answers tasks-done.json --run out/ --out review/ --form labelstudio")
def answers(
    file: Annotated[Path, typer.Argument(help="File of answers, as the tool exports it.")],
    *,
    run: RunFolder,
    out: ReviewFolder,
    form: TaskForm,
) -> ReviewPromise:
    """Take the answers of an annotation tool, and say what may be promised by now."""
    from concord.flows.commands.review_tasks import answers_in, check_task_form, take_answers
    from concord.flows.commands.reviewing import check_review_place, open_review
    from concord.flows.screen.progress import say

    check_review_place(out, [run, file])
    check_task_form(form)
    replies = answers_in(file, form)
    with open_review(run, out, {}) as review:
        taken = take_answers(review, replies, file)
        say(f"{taken:,} answers taken; {review.line}")
        return review.write()
