"""Papers: their published tables, measured again and compared on one page."""

from __future__ import annotations

from concord.flows.inputs.jobs import folder_place
from concord.flows.watched import watched
from concord.schemas.published import PapersReport
from concord.schemas.requests import PapersRequest


@watched("papers", PapersRequest, run_name="{paper}")
def papers(request: PapersRequest) -> PapersReport:
    """Measures the published tables of a paper, or of all, and writes one page of both figures into ``out``.

    Each table is a sweep: the same call again does only what is left. Tables whose data are not there say so.

    Raises `UsageError` for a paper or table that is not there, `PaperFileError`, and `PapersFailedError`, with the
    report, if cells have failed.
    """
    from concord.flows.sweeping.run_papers import run_papers

    return run_papers(request.model_copy(update={"out": folder_place(request.out)}))
