"""`concord papers`: published tables, measured again. Heavy imports stay inside the command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from concord.flows.cli.arguments import ContextOptions
from concord.schemas.published import PapersReport

PAPERS_EXAMPLE = "Example: concord papers finkel --data ../shared/data --out papers/"


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
