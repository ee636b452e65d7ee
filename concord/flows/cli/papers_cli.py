"""`concord papers`: published tables, measured again. Heavy imports stay inside the command."""

from __future__ import annotations

from typing import Annotated

import typer

from concord.flows.cli.settings_options import A_PATH, PERHAPS_A_PATH, FieldOptions, OptionForm
from concord.flows.screen.progress import show
from concord.schemas.published import Lies, PapersReport
from concord.schemas.requests import PapersRequest

PAPERS_EXAMPLE = "Example: concord papers finkel --data ../shared/data --out papers/"


def show_papers(report: PapersReport) -> None:
    """Prints the number of published figures below, inside and above the measured intervals, and the page's path."""
    counts = ", ".join(f"{report.count(lies):,} {lies.value}" for lies in Lies)
    line = f"published figures beside our intervals: {counts}; {report.count(None):,} without"
    if report.made_up:
        line = "made-up corpora: no figure can be compared with a published one"
    show(f"{len(report.tables):,} tables, {report.cpu_seconds:,.1f} CPU s; {line}")
    show(f"page in {report.page}")


PAPERS_FORMS = {
    "paper": OptionForm(parameter=typer.Argument, default="all"),
    "out": A_PATH,
    "data": PERHAPS_A_PATH,
    "test_parts": PERHAPS_A_PATH,
}


def papers(*, request: Annotated[PapersRequest, FieldOptions(PapersRequest, forms=PAPERS_FORMS)]) -> PapersReport:
    """Measure the published tables of a paper again, and write a page of published and measured figures.

    The page (Markdown and HTML) gives the interval of each measured figure, and says whether the published one lies
    inside. The same command again does only the rest.
    """
    from concord.flows.papers import papers as flow

    return flow(**request.parameters)
