"""Small Parquet files, read without trusting a byte of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


class TableFileError(ValueError):
    """A file is damaged or no Parquet file; the message gives the fault but not the file's name."""


def read_table(path: Path) -> pa.Table:
    """A whole table, with every value checked. Raises `TableFileError`, and `OSError` if there is no file."""
    data = path.read_bytes()
    try:
        table = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True).read(use_threads=False)
        table.validate(full=True)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise TableFileError(f"not a Parquet file, or a damaged one: {str(error).partition(chr(10))[0]}") from error
    names = table.column_names
    if len(set(names)) < len(names):
        raise TableFileError(f"a column is there twice: {', '.join(names)}")
    return table
