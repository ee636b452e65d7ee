"""Back to the run that readers had before the published one."""

from __future__ import annotations

import time
from collections.abc import Mapping

from concord.flows.nights.causes import NightSources, causes
from concord.flows.nights.record import Record, keep_rollback, read_record
from concord.flows.nights.taken_back import run_manifest
from concord.flows.runfolder.delta_table import check_library, commit_run, has_table
from concord.flows.runfolder.former_run import former_run
from concord.flows.runfolder.layout import MANIFEST, SOURCES, staged_prefix
from concord.flows.runfolder.runfolder import republish, run_output, sources_in
from concord.schemas.drift import MOST_MISSING
from concord.schemas.errors import DriftedError
from concord.schemas.nights import NightLine, RollbackReport, night_name
from concord.schemas.run import RunManifest
from concord.schemas.secrets import redact
from concord.workers.storage.files import OutputError
from concord.workers.storage.storage import Storage, read_if_there


def rollback(out: str, *, allow_gone: bool = False) -> RollbackReport:
    """Shows the run before the published one of an output to readers again; its table and its feed follow.

    May be killed at any point: the same call again ends in the same state. Raises `PublishedError` where no whole run
    is there, `RunFolderError` where the one before was not kept or a run is at work, `DriftedError` where it has more
    than a tenth fewer documents (unless ``allow_gone``), and `OutputError`.
    """
    started = time.monotonic()
    output = run_output(out)
    with output.exclusive():
        output.tidy()
        storage = output.storage
        if has_table(storage):
            check_library(storage)
        former, record = former_run(output), _record(storage)
        again, instead = record.with_manifest(former.run.manifest), record.published
        shown_before = storage.read(MANIFEST)
        done_before = shown_before == former.run.manifest
        recorded = instead is not None and instead.manifest == staged_prefix(former.run.manifest)
        back, gone = run_manifest(former.run.manifest), run_manifest(shown_before)
        assert back is not None  # `former_run` has read both
        assert gone is not None
        if not (done_before or allow_gone):
            _check_less(gone, back, again)
        sources = sources_in(read_if_there(storage, SOURCES))
        shown = republish(output, former)
        version = commit_run(output) if has_table(storage) else None
        if not recorded:
            keep_rollback(storage, again, shown.report, changes=shown.changes, seconds=time.monotonic() - started)
        before = NightSources(sources_in(former.sources), _request_of(again))
        after = NightSources(sources, _request_of(instead))
    return RollbackReport(
        out=redact(out),
        night=0 if again is None else again.night,
        time=None if again is None else again.time,
        instead_of=0 if instead is None else instead.night,
        documents=shown.report.documents,
        changes=shown.changes,
        version=version,
        again=done_before,
        causes=() if done_before else tuple(causes(back, gone, before, after, storage.uri)),
    )


def _check_less(gone: RunManifest, back: RunManifest, again: NightLine | None) -> None:
    """Raises `DriftedError` where readers would lose more documents than a run may take from them."""
    last, documents = gone.totals.documents, back.totals.documents
    if last - documents > MOST_MISSING * last:
        raise DriftedError(
            f"{night_name(0 if again is None else again.night)} has {documents:,} documents, and readers have "
            f"{last:,} now: {last - documents:,} would be gone; give --allow-gone if that is meant"
        )


def _request_of(line: NightLine | None) -> Mapping[str, str]:
    return {} if line is None else line.asked


def _record(storage: Storage) -> Record:
    """The record of an output; an empty one where it cannot be read."""
    try:
        return read_record(storage)
    except (OSError, OutputError):
        return Record()  # `keep_rollback` tells it
