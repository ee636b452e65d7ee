"""`concord papers`: published tables, measured again. Heavy imports stay inside the command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from concord.flows.cli.arguments import ContextOptions
from concord.flows.screen.progress import show
from concord.schemas.published import Lies, PapersReport

PAPERS_EXAMPLE = "Example: concord papers finkel --data ../shared/data --out papers/"


def show_papers(report: PapersReport) -> None:
    """Prints the number of published figures below, inside and above the measured intervals, and the page's path."""
    counts = ", ".join(f"{report.count(lies):,} {lies.value}" for lies in Lies)
    line = f"published figures beside our intervals: {counts}; {report.count(None):,} without"
    if report.made_up:
        line = "made-up corpora: no figure can be compared with a published one"
    show(f"{len(report.tables):,} tables, {report.cpu_seconds:,.1f} CPU s; {line}")
    show(f"page in {report.page}")


def papers(
    paper: Annotated[
        str, typer.Argument(help="Paper: canisius, chang, fersini, finkel, stokman, head-to-head, or all.")
    ] = "all",
    *,
    out: Annotated[Path, typer.Option(help="Folder for corpora, sweeps and the page, on a disk that all workers see.")],
    data: Annotated[
        Path | None, typer.Option(help="Folder of the real corpora; the page names the tables whose data are missing.")
    ] = None,
    table: Annotated[str | None, typer.Option(help="Number of one table (default: all).")] = None,
    test_parts: Annotated[
        Path | None,
        typer.Option(
            help="Folder of official test parts, such as eng.testb, to measure in place of development parts."
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Use small made-up corpora instead of the real ones; takes about two minutes."),
    ] = False,
    context: ContextOptions,
) -> PapersReport:
    """Measure the published tables of a paper again, and write a page of published and measured figures.

    The page (Markdown and HTML) gives the interval of each measured figure, and says whether the published one lies
    inside. The same command again does only the rest.
    """
    from concord.flows.papers import papers as flow

    return flow(
        paper,
        str(out),
        data=None if data is None else str(data),
        table=table,
        test_parts=None if test_parts is None else str(test_parts),
        quick=quick,
        **context.model_dump(),
    )
