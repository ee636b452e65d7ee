"""Tables from Python's files and bytes are read by the calling thread: another one would abort a process that ends."""

from __future__ import annotations

import io
import re
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from concord.workers.storage.tables import read_unthreaded

ROOT = Path(__file__).resolve().parent.parent
TABLE = pa.table({"doc_id": [f"d{i}" for i in range(5_000)], "tokens": [["a", "b"]] * 5_000})
ELSEWHERE = {
    "concord/workers/corpus/parquet.py": "a file system of pyarrow's",
    "concord/workers/features/clustering/vectors.py": "a path",
    "concord/workers/storage/tables.py": "what this is about",
    "concord/workers/sweeps/results.py": "a path",
}
"""Modules that open tables, and from what: files that pyarrow opens itself hold nothing of Python's."""


class Watched(io.BytesIO):
    """A file that knows who reads it."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.readers: set[int] = set()

    def read(self, size: int | None = -1, /) -> bytes:
        self.readers.add(threading.get_ident())
        return super().read(size)


@pytest.fixture
def data() -> bytes:
    sink = io.BytesIO()
    pq.write_table(TABLE, sink, row_group_size=500)
    return sink.getvalue()


@pytest.mark.parametrize("columns", [None, ["doc_id"], ["tokens", "doc_id"]])
def test_nobody_else_reads(data: bytes, columns: list[str] | None) -> None:
    file = Watched(data)
    assert read_unthreaded(file, columns).equals(TABLE if columns is None else TABLE.select(columns))
    assert file.readers == {threading.get_ident()}
    watched = Watched(data)
    pq.read_table(watched)
    assert watched.readers != {threading.get_ident()}, "pyarrow reads in the calling thread now: none of this is needed"


def test_no_other_module_has_such_tables_read_by_threads() -> None:
    modules = list((ROOT / "concord").rglob("*.py"))
    assert len(modules) > 300
    opening = re.compile(r"\bpq\.(read_table|ParquetFile)\(")
    found = {path.relative_to(ROOT).as_posix() for path in modules if opening.search(path.read_text())}
    assert found == set(ELSEWHERE)
