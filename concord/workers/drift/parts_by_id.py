"""Rows of documents put aside in temporary files, in parts by id, so that memory has one part at a time."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from concord.schemas.columns import DOC_ID
from concord.workers.storage.files import writing

DOCUMENTS_OF_PART = 50_000
"""Documents of a part, about."""

MOST_OPEN_FILES = 200
"""Parts, each of which is an open file."""

ROWS_IN_MEMORY = 20_000
"""Rows that wait until they are written together."""


def part_count(documents: int) -> int:
    """Number of parts for so many documents."""
    return min(max(1, -(-documents // DOCUMENTS_OF_PART)), MOST_OPEN_FILES)


class PartsById:
    """Tables with ids of documents; what is put in comes back part by part, of a document in the order it came in."""

    def __init__(self, folder: Path, schema: pa.Schema, count: int) -> None:
        """So many parts, in a folder that is there and empty."""
        self._folder, self._schema, self._count = folder, schema, count
        self._writers: dict[int, pa.RecordBatchStreamWriter] = {}
        self._waiting: list[pa.Table] = []

    def add(self, table: pa.Table) -> None:
        """Puts rows aside. Raises `OutputError`."""
        self._waiting.append(table)
        if sum(map(len, self._waiting)) >= ROWS_IN_MEMORY:
            self._write()

    def __iter__(self) -> Iterator[pa.Table]:
        """The parts. Nothing can be put aside any more. Raises `OutputError`."""
        self._write()
        with writing(self._folder):
            for writer in self._writers.values():
                writer.close()
        for part in range(self._count):
            yield self._read(part) if part in self._writers else self._schema.empty_table()

    def _write(self) -> None:
        table = pa.concat_tables([self._schema.empty_table(), *self._waiting])
        self._waiting.clear()
        parts = np.array([zlib.crc32(name.encode()) % self._count for name in table[DOC_ID].to_pylist()], np.int64)
        with writing(self._folder):
            for part in np.unique(parts).tolist():
                if part not in self._writers:
                    self._writers[part] = pa.ipc.new_stream(self._folder / f"{part}", self._schema)
                self._writers[part].write_table(table.filter(parts == part))

    def _read(self, part: int) -> pa.Table:
        with pa.OSFile(str(self._folder / f"{part}")) as file, pa.ipc.open_stream(file) as stream:
            return stream.read_all()
