"""The nights of an output folder, each beside the one before."""

from __future__ import annotations

from itertools import pairwise

from concord.flows.errors import RunFolderError
from concord.flows.nights.record import RECORD, asked_otherwise, read_record
from concord.schemas.nights import HistoryReport, NightLine, NightReport
from concord.schemas.secrets import redact
from concord.workers.storage.storage import storage_at


def history(out: str, *, nights: int | None = None, month: str = "") -> HistoryReport:
    """The nights of an output folder that ended in a month (YYYY-MM; default: any), the last ``nights`` of them.

    Raises `RunFolderError` where none at all is recorded.
    """
    record = read_record(storage_at(out))
    if not record.nights:
        raise RunFolderError(
            f"{redact(out)}: no run is recorded there ({RECORD}); give the folder that `concord reprocess` writes to"
        )
    reports = [_report(line, last) for last, line in pairwise([None, *record.nights]) if line is not None]
    chosen = [night for night in reports if night.line.time.startswith(month)]
    return HistoryReport(
        out=out, kept=len(reports), unread=record.unread, nights=tuple(chosen if nights is None else chosen[-nights:])
    )


def _report(line: NightLine, last: NightLine | None) -> NightReport:
    return NightReport(line=line, changed={} if last is None else asked_otherwise(last.asked, line.asked))
