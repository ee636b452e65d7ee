"""The survey of a corpus as a file: runs of rows of each file, by which the next run need not read it again.

A file stands as it did if its size, its time of writing and, on a disk, its time of any change are the same. Two
contents can have the same times only if they were written within one tick of the clock that gives them. So a file is
kept only if it was written `SETTLED_SECONDS` before it was listed, by whatever clock: clocks of a store and of a
driver differ by less.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

import numpy as np
import pyarrow as pa

from concord.workers.corpus.parquet import ListedFile, table_bytes
from concord.workers.corpus.row_runs import RowRun
from concord.workers.corpus.surveyed import SurveyedFile
from concord.workers.storage.tables import read_unthreaded

SETTLED_SECONDS = 60
"""Age, in seconds, from which a file's times tell its contents apart."""

KEY = b"concord.survey"
"""Metadata of the file: what runs depend on besides the rows."""

SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("size", pa.int64()),
        ("modified", pa.int64()),
        ("changed", pa.int64()),
        ("columns", pa.list_(pa.string())),
        ("rows", pa.list_(pa.int64())),
        ("bytes", pa.list_(pa.int64())),
        ("digests", pa.list_(pa.string())),
        ("ids", pa.large_list(pa.int64())),
    ]
)
"""A row a file, with a list over its runs and one of hashes of ids over its rows."""

KNOWN_BY = ["name", "size", "modified", "changed"]
"""Columns that a file and its content are known by."""


def is_settled(file: ListedFile, listed: int) -> bool:
    """Do the file's times tell what it holds? ``listed``: when it was listed, in nanoseconds since 1970."""
    return max(file.modified, file.changed) + SETTLED_SECONDS * 1_000_000_000 < listed


def survey_bytes(files: Sequence[SurveyedFile], key: str) -> bytes:
    """Files that are whole as Parquet; ``key``: digest of what their runs depend on besides the rows."""
    runs = [file.runs for file in files]
    columns = {
        "name": [file.file.location.name for file in files],
        "size": [file.file.size for file in files],
        "modified": [file.file.modified for file in files],
        "changed": [file.file.changed for file in files],
        "columns": [file.columns for file in files],
        "rows": [[run.rows for run in own] for own in runs],
        "bytes": [[run.size for run in own] for own in runs],
        "digests": [[run.digest for run in own] for own in runs],
        "ids": [np.concatenate([np.zeros(0, np.int64), *(run.ids for run in own)]) for own in runs],
    }
    return table_bytes(pa.table(columns, SCHEMA.with_metadata({KEY: key})))


def known_files(data: bytes, key: str, files: Iterable[ListedFile]) -> list[SurveyedFile]:
    """Those of the files that stand as they did.

    None where the survey is damaged or has another key: it is there only to save work.
    """
    try:
        table = read_unthreaded(data)
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return []
    if (table.schema.metadata or {}).get(KEY) != key.encode() or not table.schema.equals(SCHEMA):
        return []
    versions = table.select(KNOWN_BY).to_pylist()
    places = {tuple(version.values()): place for place, version in enumerate(versions)}
    found = ((file, places.get((file.location.name, *file[1:]))) for file in files)
    return [_file(file, table, place) for file, place in found if place is not None]


def _file(file: ListedFile, table: pa.Table, place: int) -> SurveyedFile:
    """The file in a row of the survey."""
    columns, rows, sizes, digests = (table[name][place].as_py() for name in ("columns", "rows", "bytes", "digests"))
    ids = table["ids"][place].values.to_numpy()
    starts = [0, *accumulate(rows)]
    runs = [
        RowRun(file.location, first, own, size, digest, ids[first : first + own])
        for first, own, size, digest in zip(starts[:-1], rows, sizes, digests, strict=True)
    ]
    return SurveyedFile(file, tuple(columns), tuple(runs))
