"""What follows a published run, looked at as it lies there: the feed of changes, the table, and the run before.

The feed and the table are held against the predictions, which `concord verify` has held against the corpus by then.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from concord.flows.errors import RunFolderError
from concord.flows.runfolder.delta_table import (
    COMMIT,
    LOG,
    TABLE_FOLDER,
    TableState,
    answer_names,
    file_name,
    log_digests,
    table_states,
    versions_of,
)
from concord.flows.runfolder.feed_reader import FeedFile, feed_files, read_changes
from concord.flows.runfolder.former_run import former_faults
from concord.flows.runfolder.layout import CORPUS, FEED_FOLDER, FILE_NAME, RunOutput
from concord.flows.runfolder.published import Published, PublishedError
from concord.schemas.changes import ChangeKind
from concord.schemas.columns import DOC_ID, LABELS, PREDICTIONS_LAYOUT, SchemaError
from concord.schemas.feed import CHANGE_KIND, CHANGES_SCHEMA, ENTITY_SPANS, RUN_NUMBER, SINCE, TEXT_DIGEST
from concord.schemas.reports import VerifyFault
from concord.workers.drift.changes import COMPARED_COLUMNS, READ_COLUMNS, answers
from concord.workers.drift.parts_by_id import PartsById, part_count
from concord.workers.labelling.output import PREDICTIONS
from concord.workers.storage.scratch import scratch_folder
from concord.workers.storage.sealed import unseal
from concord.workers.storage.storage import Storage, read_if_there

SHARED_COLUMNS = (TEXT_DIGEST, LABELS, ENTITY_SPANS)
"""Columns that the feed has as the predictions have them."""
DATA_FILE = re.compile(r"([0-9a-f]{64})\.parquet")
"""Names of a table's files: the SHA-256 of their bytes."""
COMMITTED_AGAIN = "the same `concord reprocess` again mends that"


def follower_faults(out: RunOutput, run: Published) -> Iterator[VerifyFault]:
    """Faults of what follows a run whose own files are as they were written. Raises the errors of reading."""
    purpose = read_if_there(out.storage, CORPUS)
    if purpose is not None and unseal(purpose) is None:
        yield _fault(CORPUS, f"is damaged; {COMMITTED_AGAIN}")
    yield from _feed_faults(run)
    yield from _table_faults(run)
    yield from (_fault(path, reason) for path, reason in former_faults(out, run))


def _fault(path: str, reason: str) -> VerifyFault:
    return VerifyFault(file=path, doc_id=None, field="file", reason=reason)


# The feed


def _feed_faults(run: Published) -> Iterator[VerifyFault]:
    """Files of the feed that are damaged, missing or strange; or what its runs come to is not the predictions."""
    storage = run.storage
    strange = [name for name in storage.names(FEED_FOLDER) if name[0] not in "._" and not FILE_NAME.fullmatch(name)]
    faults = [_fault(f"{FEED_FOLDER}/{name}", "is not of the feed, though its readers read it") for name in strange]
    files = feed_files(storage)
    faults += [
        _fault(FEED_FOLDER, f"lacks what lies between run {one.run} and run {other.run}")
        for one, other in pairwise(files)
        if other.run != one.run + 1
    ]
    starts = list[FeedFile]()
    for file in files:
        try:
            since = {row for table in read_changes(storage, file) for row in _numbers(table)}
        except (PublishedError, SchemaError, pa.ArrowException) as error:
            faults.append(_fault(file.path, str(error)))
            continue
        if not since <= {(file.run, file.run - 1), (file.run, 0)}:
            faults.append(_fault(file.path, "has rows of another run"))
        starts += [file] if (file.run, 0) in since else []
    yield from faults
    if files and not faults:
        yield from _sum_faults(run, [file for file in files if not starts or file >= starts[-1]], whole=bool(starts))


def _numbers(table: pa.Table) -> Iterator[tuple[int, int]]:
    return zip(table[RUN_NUMBER].to_pylist(), table[SINCE].to_pylist(), strict=True)


def _sum_faults(run: Published, files: Sequence[FeedFile], *, whole: bool) -> Iterator[VerifyFault]:
    """Faults where the last changes of documents are not their predictions; ``whole``: the feed has all documents."""
    with scratch_folder() as folder:
        count = part_count(run.manifest.totals.documents)
        feed, now = (_parts(folder / name, schema, count) for name, schema in SIDES)
        for file in files:
            for table in read_changes(run.storage, file):
                feed.add(table)
        for path, digest in run.files_in(PREDICTIONS):
            now.add(answers(run.table(path, digest, PREDICTIONS_LAYOUT, READ_COLUMNS)))
        wrong = [doc_id for both in zip(feed, now, strict=True) for doc_id in _wrong(*both, whole=whole)]
    if wrong:
        yield _fault(
            FEED_FOLDER,
            f"comes to other answers than the predictions, in {len(wrong):,} documents ({wrong[0]!r} first), as where "
            f"its last file is missing; read the predictions in full, and go on from run {files[-1].run}",
        )


SIDES = (("feed", CHANGES_SCHEMA), ("now", COMPARED_COLUMNS))


def _parts(folder: Any, schema: pa.Schema, count: int) -> PartsById:
    folder.mkdir()
    return PartsById(folder, schema, count)


def _wrong(feed: pa.Table, now: pa.Table, *, whole: bool) -> list[str]:
    """Documents of a part whose last change is not their prediction."""
    last = _rows(feed)
    state = {doc_id: row for doc_id, row in last.items() if row[CHANGE_KIND] != ChangeKind.GONE}
    there = _rows(now)
    wrong = {doc_id for doc_id in last.keys() - state.keys() if doc_id in there}
    wrong |= {doc_id for doc_id, row in state.items() if doc_id not in there or _differs(row, there[doc_id])}
    return sorted(wrong | (there.keys() - state.keys() if whole else set()))


def _rows(table: pa.Table) -> dict[str, Mapping[str, Any]]:
    """The last row of each document."""
    columns = [name for name in (DOC_ID, CHANGE_KIND, *SHARED_COLUMNS) if name in table.column_names]
    return {row[DOC_ID]: row for row in table.select(columns).to_pylist()}


def _differs(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return any(row[name] != other[name] for name in SHARED_COLUMNS)


# The table


def _table_faults(run: Published) -> Iterator[VerifyFault]:
    """Files and log of the table that are damaged or missing, and a last version that is not the predictions."""
    table = run.storage.below(TABLE_FOLDER)
    names = list(table.names(""))
    if not names:
        return
    now = answer_names(run)
    data = {name for name in names if DATA_FILE.fullmatch(name)}
    faults = [(name, _reason(name, now, "damaged")) for name in sorted(data) if not _is_named_so(table, name)]
    try:
        faults += _log_faults(run.storage, data, now)
    except RunFolderError as error:
        faults.append((LOG, str(error)))
    yield from (_fault(f"{TABLE_FOLDER}/{path}", reason) for path, reason in faults)


def _reason(name: str, now: set[str], what: str) -> str:
    if name not in now:
        return f"is {what}, and of earlier versions alone, which no run writes again"
    return f"is {what}; {COMMITTED_AGAIN}, once the file is gone"


def _is_named_so(table: Storage, name: str) -> bool:
    data = read_if_there(table, name)
    return data is not None and file_name(data) == name


def _log_faults(storage: Storage, data: set[str], now: set[str]) -> Iterator[tuple[str, str]]:
    """Faults of the log, and files that its versions have and the table lacks. Raises `RunFolderError`."""
    wrong = False
    for name, digest in log_digests(storage).items():
        content = read_if_there(storage, f"{TABLE_FOLDER}/{LOG}/{name}")
        if content is None or hashlib.sha256(content).hexdigest() != digest:
            wrong = True
            yield f"{LOG}/{name}", "is missing" if content is None else "is damaged"
    commits = versions_of(COMMIT, storage.below(TABLE_FOLDER).names(LOG))
    if not commits:
        yield LOG, "has no commit, and the table has files; move the table away, or put its log back"
    if wrong or not commits:
        return
    state, readable = TableState(), set[str]()
    for state in table_states(storage, commits[0]):
        readable |= state.files.keys()
    yield from ((name, _reason(name, now, "missing")) for name in sorted(readable - data))
    if state.files.keys() != now:
        yield LOG, f"ends with version {state.version}, which is not the published run; {COMMITTED_AGAIN}"
