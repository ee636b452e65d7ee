"""The survey of a corpus in tables: runs of rows of each file, by which the next run need not read it again.

A file stands as it did if its size, its time of writing and, on a disk, its time of any change are the same. Two
contents can have the same times only if they were written within one tick of the clock that gives them. So a file is
kept only if it was written `SETTLED_SECONDS` before it was listed, by whatever clock: clocks of a store and of a
driver differ by less.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from concord.workers.corpus.parquet import ListedFile, ParquetLocation, table_bytes
from concord.workers.corpus.row_digests import DIGEST_BYTES
from concord.workers.corpus.run_table import RunTable
from concord.workers.corpus.surveyed import SurveyedFile

SETTLED_SECONDS = 60
"""Age, in seconds, from which a file's times tell its contents apart."""

KEY = b"concord.survey"
"""Metadata of a table: what runs depend on besides the rows."""

FILES_AT_ONCE, IDS_AT_ONCE = 128, 1 << 22
"""Files of a table, and ids; a file with more of them has one to itself."""

SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("size", pa.int64()),
        ("modified", pa.int64()),
        ("changed", pa.int64()),
        ("columns", pa.list_(pa.string())),
        ("kept_columns", pa.list_(pa.string())),
        ("rows", pa.list_(pa.int64())),
        ("bytes", pa.list_(pa.int64())),
        ("digests", pa.binary()),
        ("ids", pa.large_list(pa.int64())),
    ]
)
"""A row a file, with a list over its runs and one of hashes of ids over its rows."""

KNOWN_BY = ["name", "size", "modified", "changed"]
"""Columns that a file and its content are known by."""


def is_settled(file: ListedFile, listed: int) -> bool:
    """Do the file's times tell what it holds? ``listed``: when it was listed, in nanoseconds since 1970."""
    return max(file.modified, file.changed) + SETTLED_SECONDS * 1_000_000_000 < listed


def survey_schema(key: str) -> pa.Schema:
    """That of the tables; ``key``: digest of what runs depend on besides the rows."""
    return SCHEMA.with_metadata({KEY: key})


def survey_tables(files: Iterable[SurveyedFile], key: str) -> Iterator[bytes]:
    """Files that are whole as Parquet, with the ``key`` of `survey_schema`."""
    schema, part, ids = survey_schema(key), list[SurveyedFile](), 0
    for file in files:
        part.append(file)
        ids += len(file.runs.ids)
        if len(part) == FILES_AT_ONCE or ids >= IDS_AT_ONCE:
            yield table_bytes(_table(part, schema))
            part, ids = [], 0
    if part:
        yield table_bytes(_table(part, schema))


def _table(files: Sequence[SurveyedFile], schema: pa.Schema) -> pa.Table:
    columns = {
        "name": [file.file.location.name for file in files],
        "size": [file.file.size for file in files],
        "modified": [file.file.modified for file in files],
        "changed": [file.file.changed for file in files],
        "columns": [file.columns for file in files],
        "kept_columns": [file.kept_columns for file in files],
        "rows": [file.runs.rows for file in files],
        "bytes": [file.runs.size for file in files],
        "digests": [file.runs.digest.tobytes() for file in files],
        "ids": [file.runs.ids for file in files],
    }
    return pa.table(columns, schema)


def known_files(tables: Iterable[pa.Table], files: Iterable[ListedFile]) -> Iterator[SurveyedFile]:
    """Those of the files that stand as they did."""
    by_version = {(file.location.name, *file[1:]): file for file in files}
    for table in tables:
        for place, version in enumerate(table.select(KNOWN_BY).to_pylist()):
            file = by_version.get(tuple(version.values()))
            if file is not None:
                columns, kept_columns = (tuple(table[name][place].as_py()) for name in ("columns", "kept_columns"))
                yield SurveyedFile(file, columns, _runs(file.location, table, place), kept_columns=kept_columns)


def _runs(file: ParquetLocation, table: pa.Table, place: int) -> RunTable:
    """The runs of the file in a row of a table."""
    rows, size, ids = (table[name][place].values.to_numpy() for name in ("rows", "bytes", "ids"))
    digest = np.frombuffer(table["digests"][place].as_buffer(), np.uint8).reshape(len(rows), DIGEST_BYTES)
    return RunTable(file, np.cumsum(rows) - rows, rows, size, digest, ids)
