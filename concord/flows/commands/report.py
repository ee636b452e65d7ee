"""`concord report`: a finished run as one page for people."""

from __future__ import annotations

from pathlib import Path

from concord.flows.commands.review_promise import check_promise
from concord.flows.inputs.output_places import check_file_place
from concord.flows.labelling.run_page import run_page
from concord.schemas.reports import RunPageReport
from concord.schemas.review import PromiseCheck
from concord.workers.storage.files import write_whole


def report(
    run: str, out: Path, *, against: str | None = None, corpus: str | None = None, promise: Path | None = None
) -> RunPageReport:
    """Writes the page of a run as one HTML file.

    - ``against``: folder of another run to compare with
    - ``corpus``: corpus with gold labels
    - ``promise``: file of a review's promise, which is recomputed; the page says where it is void

    Raises `OutputError`, `ReviewError` for a file that is no promise, and as `flows.labelling.run_page.run_page`.
    """
    check_file_place(out, [run, against, corpus, promise])
    sentence = None if promise is None else promise_line(check_promise(run, promise))
    page = run_page(run, against=against, gold=corpus, promise=sentence)
    write_whole(out.expanduser(), page.data)
    return RunPageReport(documents=page.documents, shown=page.shown, bytes=len(page.data), out=str(out))


def promise_line(checked: PromiseCheck) -> str:
    """What a review promises, in a sentence; where it promises nothing of this run any more, why."""
    claim = f"{checked.sentence[:1].upper()}{checked.sentence[1:]}"
    return f"{claim}." if checked.fault is None else f"This promise is void, as {checked.fault}: {claim}."
