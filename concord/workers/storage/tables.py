"""Small Parquet files, read without trusting a byte of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from concord.workers.storage.storage import file_bytes


class TableFileError(ValueError):
    """A file is damaged or no Parquet file; the message gives the fault but not the file's name."""


def unthreaded_file(source: BinaryIO | bytes) -> pq.ParquetFile:
    """A Parquet file to be read by the calling thread alone, with ``use_threads=False``.

    A thread of pyarrow's that lets go of Python's bytes or files while the process ends would abort it, as now
    and then happened to a command that read an output in an object store. Raises `pa.ArrowException` and `OSError`
    where the content is damaged.
    """
    file = pa.BufferReader(source) if isinstance(source, bytes) else source
    return pq.ParquetFile(file, page_checksum_verification=True, pre_buffer=False)


def read_unthreaded(source: BinaryIO | bytes, columns: Sequence[str] | None = None) -> pa.Table:
    """A table, or some of its columns, read by the calling thread alone, see `unthreaded_file`.

    Raises `pa.ArrowException`, `UnicodeDecodeError` and `OSError` where the content is damaged.
    """
    return unthreaded_file(source).read(columns=None if columns is None else list(columns), use_threads=False)


def table_like(data: bytes, schema: pa.Schema) -> pa.Table | None:
    """The table with this schema and its metadata; None for bytes that are none, with every value checked."""
    try:
        table = read_unthreaded(data)
        table.validate(full=True)
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return None
    same = table.schema.equals(schema) and (table.schema.metadata or {}) == (schema.metadata or {})
    return table if same else None


def is_as_written(data: bytes | None, expected: bytes) -> bool:
    """Are these the bytes of a table as they are expected? Where another version of PyArrow wrote them, its rows."""
    if data is None or data == expected:
        return data is not None
    try:
        writers = {unthreaded_file(one).metadata.created_by for one in (data, expected)}
        return len(writers) == 2 and read_unthreaded(data).equals(read_unthreaded(expected), check_metadata=True)
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return False


def read_table(path: str | Path) -> pa.Table:
    """A whole table at a path or a URI, with every value checked.

    Raises `TableFileError`, and `OSError` if there is no file.
    """
    data = file_bytes(path)
    try:
        table = read_unthreaded(data)
        table.validate(full=True)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise TableFileError(f"not a Parquet file, or a damaged one: {str(error).partition(chr(10))[0]}") from error
    names = table.column_names
    if len(set(names)) < len(names):
        raise TableFileError(f"a column is there twice: {', '.join(names)}")
    return table
