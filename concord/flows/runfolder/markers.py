"""Markers of finished shards: as a run holds them, and as its output keeps them from one run to the next.

A run of many shards would have to open and parse a marker, and hash a file, of each. So the last run's markers stand in
a few tables, with the version of each of their files when the run had been published, and have no files of their own
any more. A shard whose files have these versions still is finished; of another one the files are read and hashed.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from concord.flows.runfolder.run_keys import RunKeys
from concord.flows.runfolder.saved_tables import save_tables, saved_tables
from concord.schemas.arrays import Ints, Mask
from concord.schemas.run import FileDigest, RunKey, ShardMarker, ShardReport
from concord.workers.corpus.parquet import table_bytes
from concord.workers.corpus.shard_table import ShardTable
from concord.workers.storage.files import writing
from concord.workers.storage.storage import Storage

KEPT_MARKERS = ".markers"
"""The markers of the last run in its output, a table for so many places of the corpus."""

SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("marker", pa.binary()),
        ("files", pa.list_(pa.string())),
        ("versions", pa.list_(pa.string())),
    ]
)
"""A row a shard: its marker as JSON, and the files of the marker with their versions."""

KEPT_AT_ONCE = 1 << 14
"""Shards of a table."""

IN_MEMORY = 64 << 20
"""Bytes of markers that a run holds in memory; more are in a temporary file."""

FIELDS = b"concord.markers"
"""Metadata of a table: digest of the fields that its markers have."""


class Held(Protocol):
    """What a store says of a file of a finished shard."""

    def version(self, path: str) -> str | None:
        """What tells the file from any other, without reading it; None where there is none, or nothing that does."""

    def holds(self, entry: FileDigest) -> bool:
        """Does the store hold the file, undamaged?"""


class Markers:
    """Markers of the shards of a run that are done, by place in the corpus.

    A marker is half a kilobyte of JSON, and an object of fifteen while it is looked at. All but the first `IN_MEMORY`
    bytes of them are on the disk, so that memory has 12 bytes a shard, whatever the run's size.
    """

    def __init__(self, shards: ShardTable, key: RunKey) -> None:
        """None yet of these shards."""
        self.shards, self.key, self.keys = shards, key, RunKeys(shards, key)
        self._start = np.full(len(shards), -1, np.int64)
        self._length = np.zeros(len(shards), np.int32)
        self._file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 — as long as the markers
        self._end = 0
        weakref.finalize(self, self._file.close)

    @property
    def done(self) -> Mask:
        """(S,) mask of the shards that have a marker."""
        return self._start >= 0

    def has(self, place: int) -> bool:
        """Is the shard at that place done?"""
        return bool(self._start[place] >= 0)

    def add(self, marker: ShardMarker) -> None:
        """Takes the marker of a shard, and of those with equal rows. Raises `OutputError`."""
        self.add_packed(marker.key, marker.model_dump_json(exclude_defaults=True).encode())

    def add_packed(self, key: str, packed: bytes) -> None:
        """Takes a marker as JSON, by the key of its shard. Raises `OutputError`."""
        with writing(Path(tempfile.gettempdir())):
            self._file.seek(self._end)
            self._file.write(packed)
        places = self.keys.places(key)
        self._start[places], self._length[places] = self._end, len(packed)
        self._end += len(packed)

    def packed(self, place: int) -> bytes:
        """The marker of the shard at that place as JSON."""
        self._file.seek(int(self._start[place]))
        return self._file.read(int(self._length[place]))

    def __getitem__(self, place: int) -> ShardMarker:
        return ShardMarker.model_validate_json(self.packed(place))

    def __iter__(self) -> Iterator[ShardMarker]:
        """The markers of the shards that are done, in their order."""
        return map(self.__getitem__, np.flatnonzero(self.done).tolist())

    def keys_under(self, run: RunKey) -> RunKeys:
        """The keys that the shards have in another run: one that this run had too is known by it."""
        return self.keys if run == self.key else RunKeys(self.shards, run)

    def todo(self) -> ShardTable:
        """The shards that are not done; of those with equal rows, whose output is equal, the first."""
        first = self.keys.first_places()
        return self.shards.take(first[~self.done[first]])

    def report(self) -> ShardReport:
        """The counts of the shards that are done together."""
        return ShardReport.merge(marker.report for marker in self)


class KeptMarker(NamedTuple):
    """The marker of a shard of the last run.

    - ``key``: key of the shard.
    - ``packed``: the marker as JSON.
    - ``files``, ``versions``: the files of the shard in the store, and their versions.
    """

    key: str
    packed: bytes
    files: Sequence[str]
    versions: Sequence[str | None]

    def stands(self, store: Held) -> bool:
        """Have the files their versions still? Where a store has none, it is asked for the files."""
        if None in self.versions:
            return self.is_held(store)
        return all(store.version(file) == version for file, version in zip(self.files, self.versions, strict=True))

    def is_held(self, store: Held) -> bool:
        """True if the store holds the files with the recorded digests; version tags may differ after a copy."""
        return all(map(store.holds, ShardMarker.model_validate_json(self.packed).files))


def keep_markers(storage: Storage, markers: Markers, store: Held) -> None:
    """Keeps the markers of all shards, and no others; equal markers of equal files give equal tables.

    Raises `OutputError`.
    """
    places = markers.keys.first_places()
    parts = (places[start : start + KEPT_AT_ONCE] for start in range(0, len(places), KEPT_AT_ONCE))
    save_tables(storage, KEPT_MARKERS, (table_bytes(_table(part, markers, store)) for part in parts))


def _table(places: Ints, markers: Markers, store: Held) -> pa.Table:
    packed = [markers.packed(place) for place in places.tolist()]
    files = [[entry["path"] for entry in json.loads(data)["files"]] for data in packed]
    columns = {
        "key": [markers.keys[place] for place in places.tolist()],
        "marker": packed,
        "files": files,
        "versions": [[store.version(file) for file in own] for own in files],
    }
    return pa.table(columns, _schema())


def kept_markers(storage: Storage) -> Iterator[list[KeptMarker]]:
    """The markers that are kept, table by table; none of a version of concord with other markers."""
    for table in saved_tables(storage, KEPT_MARKERS, _schema()):
        yield [KeptMarker(*row.values()) for row in table.to_pylist()]


@cache
def _schema() -> pa.Schema:
    """That of the tables, with the digest of the fields of a marker."""
    return SCHEMA.with_metadata(marker_fields())


@cache
def marker_fields() -> dict[bytes, str]:
    """Metadata of tables of markers: a digest of the fields of a marker."""
    schema = json.dumps(ShardMarker.model_json_schema(), sort_keys=True)
    return {FIELDS: hashlib.sha256(schema.encode()).hexdigest()}
