"""`concord papers`: published tables, measured again. Heavy imports stay inside the command."""

from __future__ import annotations

from typing import Annotated

import typer

from concord.flows.cli.settings_options import A_PATH, PERHAPS_A_PATH, FieldOptions, OptionForm
from concord.flows.cli.tree import CommandTree
from concord.schemas.published import PapersReport
from concord.schemas.requests import PapersRequest

app = CommandTree()


PAPERS_FORMS = {
    "paper": OptionForm(parameter=typer.Argument, default="all"),
    "out": A_PATH,
    "data": PERHAPS_A_PATH,
    "test_parts": PERHAPS_A_PATH,
}


@app.command(epilog="Example: concord papers finkel --data ../shared/data --out papers/", resumes=True)
def papers(*, request: Annotated[PapersRequest, FieldOptions(PapersRequest, forms=PAPERS_FORMS)]) -> PapersReport:
    """Measure the published tables of a paper again, and write a page of published and measured figures.

    The page (Markdown and HTML) gives the interval of each measured figure, and says whether the published one lies
    inside. The same command again does only the rest.
    """
    from concord.flows.papers import papers as flow

    return flow(request)
