"""The survey of a corpus as a file: runs of rows of each file, by which the next run need not read it again.

A file stands as it did if its size, its time of writing and, on a disk, its time of any change are the same. Two
contents can have the same times only if they were written within one tick of the clock that gives them. So a file is
kept only if it was written `SETTLED_SECONDS` before it was listed, by whatever clock: clocks of a store and of a
driver differ by less.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from concord.workers.corpus.parquet import ListedFile, ParquetLocation, tables_bytes
from concord.workers.corpus.row_digests import DIGEST_BYTES
from concord.workers.corpus.run_table import RunTable
from concord.workers.corpus.surveyed import SurveyedFile
from concord.workers.storage.tables import unthreaded_file

SETTLED_SECONDS = 60
"""Age, in seconds, from which a file's times tell its contents apart."""

KEY = b"concord.survey"
"""Metadata of the file: what runs depend on besides the rows."""

FILES_AT_ONCE = 128
"""Files that are written and read at once."""

SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("size", pa.int64()),
        ("modified", pa.int64()),
        ("changed", pa.int64()),
        ("columns", pa.list_(pa.string())),
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


def survey_bytes(files: Sequence[SurveyedFile], key: str) -> bytes:
    """Files that are whole as Parquet; ``key``: digest of what their runs depend on besides the rows."""
    schema = SCHEMA.with_metadata({KEY: key})
    parts = (files[start : start + FILES_AT_ONCE] for start in range(0, len(files), FILES_AT_ONCE))
    return tables_bytes((_table(part, schema) for part in parts), schema)


def _table(files: Sequence[SurveyedFile], schema: pa.Schema) -> pa.Table:
    columns = {
        "name": [file.file.location.name for file in files],
        "size": [file.file.size for file in files],
        "modified": [file.file.modified for file in files],
        "changed": [file.file.changed for file in files],
        "columns": [file.columns for file in files],
        "rows": [file.runs.rows for file in files],
        "bytes": [file.runs.size for file in files],
        "digests": [file.runs.digest.tobytes() for file in files],
        "ids": [file.runs.ids for file in files],
    }
    return pa.table(columns, schema)


def known_files(data: bytes, key: str, files: Iterable[ListedFile]) -> list[SurveyedFile]:
    """Those of the files that stand as they did.

    None where the survey is damaged or has another key: it is there only to save work.
    """
    wanted = {(file.location.name, *file[1:]): file for file in files}
    try:
        return list(_known(unthreaded_file(data), key, wanted))
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return []


def _known(
    survey: pq.ParquetFile, key: str, wanted: Mapping[tuple[str, int, int, int], ListedFile]
) -> Iterator[SurveyedFile]:
    schema = survey.schema_arrow
    if (schema.metadata or {}).get(KEY) != key.encode() or not schema.equals(SCHEMA):
        return
    for group in range(survey.num_row_groups):
        table = survey.read_row_group(group, use_threads=False)
        for place, version in enumerate(table.select(KNOWN_BY).to_pylist()):
            file = wanted.get(tuple(version.values()))
            if file is not None:
                yield SurveyedFile(file, tuple(table["columns"][place].as_py()), _runs(file.location, table, place))


def _runs(file: ParquetLocation, table: pa.Table, place: int) -> RunTable:
    """The runs of the file in a row of the survey."""
    rows, size, ids = (table[name][place].values.to_numpy() for name in ("rows", "bytes", "ids"))
    digest = np.frombuffer(table["digests"][place].as_buffer(), np.uint8).reshape(len(rows), DIGEST_BYTES)
    return RunTable(file, np.cumsum(rows) - rows, rows, size, digest, ids)
