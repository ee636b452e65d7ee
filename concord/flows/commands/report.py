"""`concord report`: a finished run as one page for people."""

from __future__ import annotations

from pathlib import Path

from concord.flows.inputs.apart import check_file_place
from concord.flows.labelling.run_page import run_page
from concord.schemas.reports import RunPageReport
from concord.workers.storage.files import write_whole


def report(run: str, out: Path, *, against: str | None = None, corpus: str | None = None) -> RunPageReport:
    """Writes the page of a run as one HTML file.

    - ``against``: folder of another run to compare with
    - ``corpus``: corpus with gold labels

    Raises `OutputError`, and as `flows.labelling.run_page.run_page`.
    """
    check_file_place(out, [run, against, corpus])
    page = run_page(run, against=against, gold=corpus)
    write_whole(out.expanduser(), page.data)
    return RunPageReport(documents=page.documents, shown=page.shown, bytes=len(page.data), out=str(out))
