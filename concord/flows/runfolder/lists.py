"""The tables that list the shards of a published run and their files, in the order of the corpus.

The manifest names them by digest, so that it is small, and that a night in which little changed writes few of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from concord.flows.runfolder.layout import SHARD_LISTS
from concord.schemas.run import ShardPlace
from concord.workers.corpus.parquet import table_bytes
from concord.workers.storage.tables import table_like

LISTED_AT_ONCE = 1 << 14
"""Shards of a table."""

FILE = pa.struct([pa.field("path", pa.string(), nullable=False), pa.field("sha256", pa.string(), nullable=False)])
SCHEMA = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("file", pa.string(), nullable=False),
        pa.field("first_row", pa.int64(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("files", pa.list_(pa.field("element", FILE, nullable=False)), nullable=False),
    ]
)
"""A row a shard: its key, the place of its rows in the corpus, and its files with their SHA-256."""


class ListedShard(NamedTuple):
    """A shard of a published run.

    - ``files``: SHA-256 by name, of the files of the shard that readers see, times apart.
    """

    place: ShardPlace
    files: Mapping[str, str]


def list_bytes(shards: Sequence[ListedShard]) -> bytes:
    """Shards as a table; equal shards give equal bytes."""
    rows = [
        {
            "key": place.key,
            "file": place.file,
            "first_row": place.first_row,
            "rows": place.rows,
            "files": [{"path": path, "sha256": digest} for path, digest in files.items()],
        }
        for place, files in shards
    ]
    return table_bytes(pa.Table.from_pylist(rows, SCHEMA))


def list_name(number: int, digest: str) -> str:
    """The file of the table with that number and SHA-256."""
    return f"{SHARD_LISTS}/{number:08d}-{digest[:16]}.parquet"


def read_list(data: bytes) -> list[ListedShard] | None:
    """The shards of a table; None for bytes that are none."""
    table = table_like(data, SCHEMA)
    if table is None:
        return None
    return [
        ListedShard(
            ShardPlace(row["key"], row["file"], row["first_row"], row["rows"]),
            {file["path"]: file["sha256"] for file in row["files"]},
        )
        for row in table.to_pylist()
    ]
