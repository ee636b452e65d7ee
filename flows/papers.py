"""Published tables of papers, measured again and compared on one page."""

from __future__ import annotations

from concord.flows.jobs import folder_place
from concord.flows.run_context import RunContext
from concord.flows.watched import watched
from concord.schemas.published import PapersReport


@watched("papers", run_name="{paper}")
def papers(
    paper: str,
    out: str,
    *,
    data: str | None = None,
    table: str | None = None,
    quick: bool = False,
    ray: str | None = None,
    workers: int | None = None,
    tracking: str | None = None,
) -> PapersReport:
    """Measures the published tables of a paper, or of all papers, and writes one page of both figures into ``out``.

    - ``data``: folder of the real corpora; the page names tables whose data are missing.
    - ``quick``: use small made-up corpora instead?

    Each table is a sweep; the same call again does only the rest. Raises `UsageError` for an unknown paper or table,
    `PaperFileError`, and `PapersFailedError`, with the report, if cells have failed.
    """
    from concord.flows.run_papers import PapersRequest, run_papers

    context = RunContext(ray=ray, workers=workers, tracking=tracking)
    request = PapersRequest(paper=paper, out=folder_place(out), data=data, table=table, quick=quick, context=context)
    return run_papers(request)
