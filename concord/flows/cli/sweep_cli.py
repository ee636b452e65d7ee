"""`concord sweep`: many models, constraints and engines on some corpora. Heavy imports stay inside the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from concord.flows.cli.arguments import Json, print_json
from concord.flows.cli.next_steps import after_sweep
from concord.flows.cli.settings_options import A_PATH, PERHAPS_A_PATH, FieldOptions, OptionForm
from concord.flows.cli.tree import CommandTree
from concord.flows.screen.progress import show
from concord.schemas.learning_requests import SweepRequest
from concord.schemas.sweep import AXES, SweepPlan, SweepReport

app = CommandTree(
    help="Train, label and measure every combination of models, constraints, engines and seeds that a file names."
)

SWEEP_FORMS = {
    "file": OptionForm("sweep_file", Path, str, parameter=typer.Argument),
    "out": A_PATH,
    "reuse": PERHAPS_A_PATH,
}
SweepPath = Annotated[Path, typer.Argument(help=SweepRequest.model_fields["file"].description)]
SweepFolder = Annotated[str, typer.Option("--sweep", help="Folder of a sweep.")]


def _next(report: SweepReport) -> list[str]:
    return after_sweep(report.out)


@app.command(epilog="Example: concord sweep run sweep.yaml --out sweeps/cora/", proposes=_next, resumes=True)
def run(*, request: Annotated[SweepRequest, FieldOptions(SweepRequest, forms=SWEEP_FORMS)]) -> SweepReport:
    """Do every cell of a sweep file that has no result yet; the same command again does only what is left.

    Cells of one model train it once. A cell that fails is a row with its reason, and the others go on.
    """
    from concord.flows.sweep import sweep

    return sweep(request)


@app.command(epilog="Example: concord sweep plan sweep.yaml --out sweeps/cora/")
def plan(
    sweep_file: SweepPath,
    *,
    out: Annotated[Path, typer.Option(help="Folder of the sweep, if there is one already.")],
) -> SweepPlan:
    """Say what a sweep would do, and what a change of file, data, model or code has made stale; nothing is run."""
    from concord.flows.sweeping.run_sweep import plan_sweep

    return plan_sweep(str(sweep_file), str(out))


@app.command("show", epilog="Example: concord sweep show --sweep sweeps/cora/ --by engine --against viterbi")
def show_results(
    *,
    folder: SweepFolder,
    by: Annotated[
        str | None,
        typer.Option(
            help=f"Axis whose values are compared: one of {', '.join(AXES)}, or setting (model, constraints, penalty "
            "and engine together; default: engine, and setting where the file has `select`)."
        ),
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="Value of the axis that the others are compared with, on the same documents.")
    ] = None,
    measure: Annotated[
        str | None, typer.Option(help="MEASURE.FIGURE, such as spans.f1 (default: the first F1 or accuracy).")
    ] = None,
    choose: Annotated[
        str | None,
        typer.Option(help="Corpus that chooses the best value of the axis; figures are those of the other corpora."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the figure to this file: .svg, .png or .pdf.")] = None,
    as_json: Json = False,
) -> None:
    """Show the cells of a sweep, and a figure with its 95 % interval by the values of one axis."""
    from concord.flows.cli.sweep_tables import FittedTable, shown_json, shown_lines
    from concord.flows.commands.sweeps import show_sweep
    from concord.flows.screen.terminal import show_blocks

    if plot is not None:
        from concord.flows.cli.sweep_plot import check_plot, draw

        check_plot(plot, folder)
    found = show_sweep(folder, by=by, against=against, measure=measure, choose=choose)
    if plot is not None and found.rows:
        draw(found, plot)
    if as_json:
        print_json(shown_json(found))
        return
    if found.rows:
        show(FittedTable(found))
    show_blocks(shown_lines(found))


@app.command(epilog="Example: concord sweep log --sweep sweeps/cora/ --cell cora/crf/rules/gibbs/seed=0")
def log(
    *,
    folder: SweepFolder,
    cell: Annotated[str, typer.Option(help="Name or key of a cell.")],
    as_json: Json = False,
) -> None:
    """Show why a cell failed, with the traceback of its worker."""
    from concord.flows.commands.sweeps import log_of

    failure = log_of(folder, cell)
    if as_json:
        print_json(failure.model_dump_json())
        return
    show(f"{failure.name}: {failure.reason}", *failure.log.splitlines())
