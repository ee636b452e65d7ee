"""Tables that one run leaves to the next, only to save work: a folder of them, each by its number and digest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import pyarrow as pa

from concord.workers.storage.storage import Storage, read_if_there
from concord.workers.storage.tables import table_like


def save_tables(storage: Storage, folder: str, tables: Iterable[bytes]) -> None:
    """Makes the folder hold exactly these tables; one that is there unchanged is not written again.

    Raises `OutputError`.
    """
    there, names = set(storage.names(folder)), set[str]()
    for number, data in enumerate(tables):
        name = f"{number:08d}-{hashlib.sha256(data).hexdigest()[:16]}.parquet"
        names.add(name)
        if name not in there or read_if_there(storage, f"{folder}/{name}") != data:
            storage.write(f"{folder}/{name}", data)
    storage.remove([f"{folder}/{name}" for name in sorted(there - names)])


def saved_tables(storage: Storage, folder: str, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yields the tables with this schema and its metadata; leaves out damaged ones and those of another version."""
    for name in sorted(storage.names(folder)):
        data = read_if_there(storage, f"{folder}/{name}")
        table = None if data is None else table_like(data, schema)
        if table is not None:
            yield table
