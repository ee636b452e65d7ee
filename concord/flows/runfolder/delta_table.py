"""The predictions of a folder's runs as a Delta table, ``table/``: one commit a run, and each version stays readable.

The table's files are the published files of predictions under names of their own (a second name in a folder, a copy in
an object store). So what readers of ``predictions/`` see does not change, and a version lasts until `keep_versions`
removes it. A commit is written after the run is published, by creating its file, which fails where there is one. A run
that is killed before that leaves the last version; the same call again commits what is missing.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from concord.flows.errors import RunFolderError
from concord.flows.runfolder.layout import RunOutput
from concord.flows.runfolder.published import Published, published, row_of
from concord.flows.screen.progress import say
from concord.schemas.columns import DOC_ID, PREDICTIONS_LAYOUT
from concord.schemas.nights import KeptVersions
from concord.schemas.run import FileDigest
from concord.workers.corpus.parquet import table_bytes
from concord.workers.delta.log import (
    CHECKPOINT,
    CHECKPOINT_EVERY,
    COMMIT,
    LAST_CHECKPOINT,
    LOG,
    Commit,
    DataFile,
    DeltaLogError,
    TableState,
    after,
    checkpoint,
    checkpoint_name,
    commit_lines,
    commit_name,
    data_file,
    last_checkpoint,
    may_have,
    of_checkpoint,
    versions_of,
)
from concord.workers.labelling.output import PREDICTIONS
from concord.workers.storage.storage import Storage, read_if_there
from concord.workers.storage.tables import read_unthreaded

LOOKED_AT = 30
"""Versions in which a document's answers are looked up."""

TABLE_FOLDER = "table"
"""The table's folder in an output."""


def has_table(out: Storage) -> bool:
    """Has a run of this output been committed to a table?"""
    return any(True for _ in out.names(f"{TABLE_FOLDER}/{LOG}"))


def commit_run(out: RunOutput) -> int:
    """Commits the published run; returns the table's version, which stays where nothing changed.

    May be killed at any point: the same call again ends in the same state. Raises `RunFolderError` where the log is
    damaged or another run has committed, and the errors of `published`.
    """
    run = published(out.storage.uri)
    state = table_state(out.storage)
    entries, schema = list[DataFile](), None if state.schema else PREDICTIONS_LAYOUT.required
    for path, digest in run.files_in(PREDICTIONS):
        name = f"{digest}.parquet"
        if name not in state.files:
            metadata, size = _footer(out.storage, path)
            schema = metadata.schema.to_arrow_schema()
            entries.append(data_file(name, metadata, size))
        else:
            entries.append(state.files[name])
    _bring_files(out, run, {entry.path: entry.size for entry in entries})
    lines = commit_lines(state, _commit(run, entries, schema))
    if lines is None:
        return state.version
    version = state.version + 1
    out.create(f"{TABLE_FOLDER}/{commit_name(version)}", lines)
    state = after(state, lines, source=commit_name(version))
    if version % CHECKPOINT_EVERY == 0 and version:
        write_checkpoint(out.storage, state)
    return version


def _bring_files(out: RunOutput, run: Published, sizes: Mapping[str, int]) -> None:
    """Gives the run's files their names in the table, those that are missing there, and those that are damaged."""
    there = set(out.storage.names(TABLE_FOLDER))
    files = {
        path: FileDigest(path=f"{digest}.parquet", bytes=sizes[f"{digest}.parquet"], sha256=digest)
        for path, digest in run.files_in(PREDICTIONS)
    }
    for path in out.differing(TABLE_FOLDER, files):
        place = f"{TABLE_FOLDER}/{files[path].path}"
        if files[path].path in there:
            say(f"{out.storage.uri}: {place} was damaged; it is what was written again", style="yellow")
            out.storage.remove([place])
        out.copy(path, place)


def _commit(run: Published, files: list[DataFile], schema: pa.Schema | None) -> Commit:
    manifest = run.manifest
    return Commit(files, schema, {"corpus": manifest.dataset, "model": manifest.run.model, "run": manifest.run.digest})


def _footer(out: Storage, path: str) -> tuple[pq.FileMetaData, int]:
    """The footer of a file, and its size in bytes."""
    with out.opened(path) as source:
        size = source.seek(0, io.SEEK_END)
        return pq.read_metadata(source), size


def table_state(out: Storage, version: int | None = None) -> TableState:
    """The table at a version, or the last one. Raises `RunFolderError` for a damaged log, and where it is not there."""
    wanted = _last_version(out) if version is None else version
    return TableState() if wanted is None else next(table_states(out, wanted, wanted))


def _last_version(out: Storage) -> int | None:
    """The number of the last commit; None before the first."""
    return max(versions_of(COMMIT, out.below(TABLE_FOLDER).names(LOG)), default=None)


def table_states(out: Storage, first: int, last: int) -> Iterator[TableState]:
    """The table at each version from ``first`` to ``last``; each commit is read once. Raises as `table_state`."""
    table = out.below(TABLE_FOLDER)
    start = max((own for own in versions_of(CHECKPOINT, table.names(LOG)) if own <= first), default=None)
    try:
        state = TableState() if start is None else checkpoint_state(table, start)
        if state.version == first:
            yield state
        for number in range(state.version + 1, last + 1):
            name = commit_name(number)
            state = after(state, _read(table, name), source=name)
            if number >= first:
                yield state
    except DeltaLogError as error:
        raise RunFolderError(
            f"{table.uri}: {error}; move that folder away, and the same command begins a new table"
        ) from None


def checkpoint_state(table: Storage, version: int) -> TableState:
    """The state that the checkpoint of a version holds. Raises `DeltaLogError`."""
    name = checkpoint_name(version)
    try:
        content = read_unthreaded(_read(table, name))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DeltaLogError(f"{name}: no checkpoint of a Delta table, or a damaged one ({error})") from error
    return of_checkpoint(content, version, source=name)


def _read(table: Storage, name: str) -> bytes:
    data = read_if_there(table, name)
    if data is None:
        raise DeltaLogError(f"{name}: it is missing")
    return data


def write_checkpoint(out: Storage, state: TableState) -> None:
    """Writes the state for readers; the log says the same without it, so that a kill here does no harm."""
    table = out.below(TABLE_FOLDER)
    table.write(checkpoint_name(state.version), table_bytes(checkpoint(state)))
    table.write(LAST_CHECKPOINT, last_checkpoint(state))


def past_answers(out: Storage, doc_id: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The rows of a document in the last `LOOKED_AT` versions, oldest first. Raises as `table_state`."""
    table = out.below(TABLE_FOLDER)
    versions, rows = versions_of(COMMIT, table.names(LOG))[-LOOKED_AT:], dict[str, Mapping[str, Any] | None]()
    for state in table_states(out, versions[0], versions[-1]) if versions else ():
        for path in (path for path, file in state.files.items() if may_have(file, DOC_ID, doc_id)):
            if path not in rows:
                rows[path] = row_of(read_unthreaded(_read(table, path)), doc_id)
            row = rows[path]
            if row is not None:
                yield state.version, row
                break


def keep_versions(out: Storage, versions: int) -> KeptVersions:
    """Removes all but the last ``versions`` versions of the table, and the files that only these had.

    A checkpoint of the first one that stays takes the place of all commits before it. May be killed at any point.
    Raises `RunFolderError` where there is no table, and as `table_state`.
    """
    last, table = _last_version(out), out.below(TABLE_FOLDER)
    if last is None:
        raise RunFolderError(f"{out.uri}: there is no table; `concord reprocess --table delta` keeps one")
    first, checkpoints = max(0, last - versions + 1), versions_of(CHECKPOINT, table.names(LOG))
    newest = max((own for own in checkpoints if own > first), default=first)
    readable, ends = set[str](), dict[int, TableState]()
    for state in table_states(out, first, last):
        readable |= state.files.keys()
        if state.version in (first, newest):
            ends[state.version] = state
    if first and first not in checkpoints:
        write_checkpoint(out, ends[first])
        table.write(LAST_CHECKPOINT, last_checkpoint(ends[newest]))
    gone = [name for name in table.names("") if name.endswith(".parquet") and name not in readable]
    table.remove([commit_name(own) for own in versions_of(COMMIT, table.names(LOG)) if own < first])
    table.remove([checkpoint_name(own) for own in checkpoints if own < first])
    table.remove(gone)
    return KeptVersions(first=first, last=last, removed=len(gone))
