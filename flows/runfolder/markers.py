"""Markers of finished shards: as a run holds them, and as its output keeps them from one run to the next.

A run of many shards would have to open and parse a marker, and hash a file, of each. So the last run's markers stand in
one file, with the version of each of their files when the run had been published, and have no files of their own any
more. A shard whose files have these versions still is finished; of another one the files are read and hashed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from concord.schemas.run import FileDigest, ShardMarker, ShardReport
from concord.workers.corpus.parquet import tables_bytes
from concord.workers.corpus.shards import Shard
from concord.workers.storage.tables import unthreaded_file

KEPT_MARKERS = ".markers.parquet"
"""The markers of the last run in its output."""

SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("marker", pa.binary()),
        ("files", pa.list_(pa.string())),
        ("versions", pa.list_(pa.string())),
    ]
)
"""A row a shard: its marker as JSON, and the files of the marker with their versions."""

ROWS_AT_ONCE = 4096
"""Rows that are written and read at once."""

FIELDS = b"concord.markers"
"""Metadata of the file: digest of the fields that its markers have."""


class Held(Protocol):
    """What a store says of a file of a finished shard."""

    def version(self, path: str) -> str | None:
        """What tells the file from any other, without reading it; None where there is none, or nothing that does."""

    def holds(self, entry: FileDigest) -> bool:
        """Does the store hold the file, undamaged?"""


class Markers(Mapping[str, ShardMarker]):
    """Markers by shard id. Each is held as JSON, half a kilobyte, and is an object of fifteen while it is looked at."""

    def __init__(self) -> None:
        """None yet."""
        self._packed: dict[str, bytes] = {}
        self._files: dict[str, Sequence[str]] = {}

    def __getitem__(self, shard_id: str) -> ShardMarker:
        return ShardMarker.model_validate_json(self._packed[shard_id])

    def __contains__(self, shard_id: object) -> bool:
        return shard_id in self._packed

    def __iter__(self) -> Iterator[str]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)

    def add(self, shard_id: str, marker: ShardMarker) -> None:
        """Takes the marker of a shard."""
        self._packed[shard_id] = marker.model_dump_json(exclude_defaults=True).encode()
        self._files[shard_id] = tuple(entry.path for entry in marker.files)

    def add_kept(self, shard_id: str, kept: KeptMarker) -> None:
        """Takes a marker of the last run."""
        self._packed[shard_id], self._files[shard_id] = kept.packed, kept.files

    def packed(self, shard_id: str) -> bytes:
        """The marker of a shard as JSON."""
        return self._packed[shard_id]

    def files(self, shard_id: str) -> Sequence[str]:
        """Paths of the files of a shard in the store."""
        return self._files[shard_id]

    def of(self, shards: Iterable[Shard]) -> Iterator[ShardMarker]:
        """The markers of those shards that have one, in their order."""
        return (self[shard.id] for shard in shards if shard.id in self._packed)

    def report(self, shards: Iterable[Shard]) -> ShardReport:
        """The counts of those shards together."""
        return ShardReport.merge(marker.report for marker in self.of(shards))


class KeptMarker(NamedTuple):
    """The marker of a shard of the last run.

    - ``packed``: the marker as JSON.
    - ``files``, ``versions``: the files of the shard in the store, and their versions.
    """

    packed: bytes
    files: Sequence[str]
    versions: Sequence[str | None]

    @property
    def marker(self) -> ShardMarker:
        """The marker."""
        return ShardMarker.model_validate_json(self.packed)

    def stands(self, store: Held) -> bool:
        """Have the files their versions still? Where a store has none, it is asked for the files."""
        if None in self.versions:
            return self.is_held(store)
        return all(store.version(file) == version for file, version in zip(self.files, self.versions, strict=True))

    def is_held(self, store: Held) -> bool:
        """Does the store hold the files, whatever their versions? They have others where the output was copied."""
        return all(store.holds(entry) for entry in self.marker.files)


def kept_bytes(markers: Markers, shards: Mapping[str, Shard], store: Held) -> bytes:
    """The markers of shards by their keys, as Parquet; equal markers of equal files give equal bytes."""
    schema, keys = SCHEMA.with_metadata({FIELDS: _fields()}), sorted(shards)
    parts = (keys[start : start + ROWS_AT_ONCE] for start in range(0, len(keys), ROWS_AT_ONCE))
    return tables_bytes((_table(part, markers, shards, store, schema) for part in parts), schema)


def _table(
    keys: Sequence[str], markers: Markers, shards: Mapping[str, Shard], store: Held, schema: pa.Schema
) -> pa.Table:
    ids = [shards[key].id for key in keys]
    files = [markers.files(name) for name in ids]
    columns = {
        "key": keys,
        "marker": [markers.packed(name) for name in ids],
        "files": files,
        "versions": [[store.version(file) for file in own] for own in files],
    }
    return pa.table(columns, schema)


def kept_markers(data: bytes) -> dict[str, KeptMarker]:
    """Markers by the keys of their shards.

    None where the file is damaged, or of a version of concord with other markers: it is there only to save work.
    """
    try:
        return dict(_rows(unthreaded_file(data)))
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return {}


def _rows(file: pq.ParquetFile) -> Iterator[tuple[str, KeptMarker]]:
    if (file.schema_arrow.metadata or {}).get(FIELDS) != _fields() or not file.schema_arrow.equals(SCHEMA):
        return
    for batch in file.iter_batches(batch_size=ROWS_AT_ONCE, use_threads=False):
        for key, *row in zip(*(batch[name].to_pylist() for name in SCHEMA.names), strict=True):
            yield key, KeptMarker(*row)


@cache
def _fields() -> bytes:
    told = json.dumps(ShardMarker.model_json_schema(), sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest().encode()
