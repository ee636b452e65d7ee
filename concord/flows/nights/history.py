"""The nights of an output folder, each beside the one before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

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
    reports = list(_reports(record.nights))
    chosen = [night for night in reports if night.line.time.startswith(month)]
    return HistoryReport(
        out=out, kept=len(reports), unread=record.unread, nights=tuple(chosen if nights is None else chosen[-nights:])
    )


def _reports(lines: Iterable[NightLine]) -> Iterator[NightReport]:
    """Each night beside the last one that asked for something; a rollback, and what stopped early, ask for nothing."""
    last: Mapping[str, str] = {}
    for line in lines:
        is_beside = last and line.asked and line.rolled_back_to is None
        yield NightReport(line=line, changed=asked_otherwise(last, line.asked) if is_beside else {})
        last = line.asked or last
