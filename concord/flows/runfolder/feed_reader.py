"""The feed of changes as its readers have it: a file a run, and what several runs come to together."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from concord.flows.errors import RunFolderError
from concord.flows.runfolder.layout import FEED_FOLDER, FILE_NAME
from concord.flows.runfolder.published import PublishedError
from concord.schemas.columns import check
from concord.schemas.feed import CHANGES_LAYOUT, CHANGES_SCHEMA, SINCE
from concord.schemas.nights import KeptRange
from concord.workers.drift.net_changes import net_changes
from concord.workers.drift.parts_by_id import PartsById, part_count
from concord.workers.storage.scratch import scratch_folder
from concord.workers.storage.storage import Storage, read_if_there
from concord.workers.storage.tables import unthreaded_file


class FeedFile(NamedTuple):
    """A file of the feed, by the number of its run."""

    run: int
    path: str


def feed_files(storage: Storage) -> list[FeedFile]:
    """The files of the feed in a run's output, the oldest first."""
    names = sorted(name for name in storage.names(FEED_FOLDER) if FILE_NAME.fullmatch(name))
    return [FeedFile(int(name[:8]), f"{FEED_FOLDER}/{name}") for name in names]


def files_since(storage: Storage, since: int | None) -> Sequence[FeedFile]:
    """The files of the runs after ``since``; None: of the last one.

    Raises `RunFolderError` where there is no feed, or it does not reach back that far.
    """
    files = feed_files(storage)
    if not files:
        raise RunFolderError(
            f"{storage.uri}: no feed of changes ({FEED_FOLDER}/); the next `concord reprocess` there that changes an "
            "answer begins one; until then read the predictions in full"
        )
    last = files[-1].run
    if since is None:
        return files[-1:]
    if since > last:
        raise RunFolderError(f"{storage.uri}: no run {since}; the last one that changed something is run {last}")
    wanted = [file for file in files if file.run > since]
    if wanted and [file.run for file in wanted] != list(range(since + 1, last + 1)):
        raise RunFolderError(
            f"{storage.uri}: changes since run {since} are no longer there, those since run {files[0].run - 1} are; "
            f"read the predictions in full, which are those of run {last}, and go on from there"
        )
    return wanted


def changes_of(storage: Storage, files: Sequence[FeedFile]) -> Iterator[pa.Table]:
    """What the runs of these files, one after the other, changed together: rows of the feed, a document once.

    ``run`` is the last one that changed the document, ``since`` the one before all of them. Raises `PublishedError`
    where a file is missing or damaged, `SchemaError`, and `RunFolderError` where one of several runs was compared with
    none.
    """
    if len(files) <= 1:
        for file in files:
            yield from read_changes(storage, file)
        return
    with scratch_folder() as folder:
        rows = sum(unthreaded_file(_data(storage, file)).metadata.num_rows for file in files)
        parts = PartsById(folder, CHANGES_SCHEMA, part_count(rows))
        for file in files:
            for table in read_changes(storage, file):
                _check_compared(storage, file, table)
                parts.add(table)
        yield from (net_changes(part, files[0].run - 1) for part in parts)


def _check_compared(storage: Storage, file: FeedFile, table: pa.Table) -> None:
    since = table[SINCE][0].as_py() if len(table) else file.run - 1
    if since != file.run - 1:
        raise RunFolderError(
            f"{storage.uri}: run {file.run} could not be compared with the run before, which was damaged; read the "
            "predictions in full, and go on from the last run"
        )


def read_changes(storage: Storage, file: FeedFile) -> Iterator[pa.Table]:
    """The rows of a file of the feed, in tables. Raises `PublishedError` where it is damaged, and `SchemaError`."""
    parquet = unthreaded_file(_data(storage, file))
    check(parquet.schema_arrow, CHANGES_LAYOUT, source=file.path)
    for group in range(parquet.num_row_groups):
        yield parquet.read_row_group(group, columns=CHANGES_SCHEMA.names, use_threads=False)


def _data(storage: Storage, file: FeedFile) -> bytes:
    data = read_if_there(storage, file.path)
    if data is None or hashlib.sha256(data).hexdigest()[:16] != Path(file.path).stem[9:]:
        raise PublishedError(
            f"{storage.uri}: {file.path} is {'missing' if data is None else 'damaged'}; read the predictions in full, "
            "and go on from the last run"
        )
    return data


def keep_changes(storage: Storage, runs: int) -> KeptRange:
    """Removes all but the last files of the feed, so many of them. Raises `OutputError`."""
    files = feed_files(storage)
    gone = files[:-runs]
    storage.remove([file.path for file in gone])
    left = files[-runs:]
    return KeptRange(first=left[0].run, last=left[-1].run, removed=len(gone))
