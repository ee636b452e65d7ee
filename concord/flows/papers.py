"""Papers: their published tables, measured again and compared on one page."""

from __future__ import annotations

from concord.flows.inputs.jobs import folder_place
from concord.flows.inputs.run_context import RunContext
from concord.flows.watched import watched
from concord.schemas.published import PapersReport


@watched("papers", run_name="{paper}")
def papers(
    paper: str,
    out: str,
    *,
    data: str | None = None,
    table: str | None = None,
    test_parts: str | None = None,
    quick: bool = False,
    ray: str | None = None,
    workers: int | None = None,
    tracking: str | None = None,
) -> PapersReport:
    """Measures the published tables of a paper, or of all, and writes one page of both figures into ``out``.

    Each table is a sweep: the same call again does only what is left. ``data`` is the folder of the real corpora; with
    ``quick`` made-up ones stand in for them. Tables whose data are not there say so. Official test parts in the folder
    ``test_parts`` are read in the place of development parts.

    Raises `UsageError` for a paper or table that is not there, `PaperFileError`, and `PapersFailedError`, with the
    report, if cells have failed.
    """
    from concord.flows.sweeping.run_papers import PapersRequest, run_papers

    context = RunContext(ray=ray, workers=workers, tracking=tracking)
    request = PapersRequest(
        paper=paper,
        out=folder_place(out),
        data=data,
        table=table,
        test_parts=test_parts,
        quick=quick,
        context=context,
    )
    return run_papers(request)
