"""Back to the run that readers had before the published one."""

from __future__ import annotations

import time

from concord.flows.nights.record import Record, keep_rollback, read_record
from concord.flows.runfolder.delta_table import commit_run, has_table
from concord.flows.runfolder.former_run import former_run
from concord.flows.runfolder.layout import MANIFEST, staged_prefix
from concord.flows.runfolder.runfolder import republish, run_output
from concord.schemas.nights import RollbackReport
from concord.schemas.secrets import redact
from concord.workers.storage.files import OutputError
from concord.workers.storage.storage import Storage


def rollback(out: str) -> RollbackReport:
    """Shows the run before the published one of an output to readers again; its table and its feed follow.

    May be killed at any point: the same call again ends in the same state. Raises `PublishedError` where no whole run
    is there, `RunFolderError` where the one before was not kept or a run is at work, and `OutputError`.
    """
    started = time.monotonic()
    output = run_output(out)
    with output.exclusive():
        output.tidy()
        storage = output.storage
        former, record = former_run(output), _record(storage)
        again, instead = record.with_manifest(former.run.manifest), record.published
        done_before = storage.read(MANIFEST) == former.run.manifest
        recorded = instead is not None and instead.manifest == staged_prefix(former.run.manifest)
        shown = republish(output, former)
        version = commit_run(output) if has_table(storage) else None
        if not recorded:
            keep_rollback(storage, again, shown.report, seconds=time.monotonic() - started)
    return RollbackReport(
        out=redact(out),
        night=0 if again is None else again.night,
        time=None if again is None else again.time,
        instead_of=0 if instead is None else instead.night,
        documents=shown.report.documents,
        changes=shown.changes,
        version=version,
        again=done_before,
    )


def _record(storage: Storage) -> Record:
    """The record of an output; an empty one where it cannot be read."""
    try:
        return read_record(storage)
    except (OSError, OutputError):
        return Record()  # `keep_rollback` tells it
