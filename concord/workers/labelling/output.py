"""Output files of a shard, and the marker by which a finished shard is recognised.

The run's folder keeps the output of shards in a store, by key. Files of one key are the same, byte for byte, whoever
wrote them and when, except those in ``_times/``. A shard's marker is written last. See `flows.runfolder` for the part
that readers see.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pydantic import ValidationError

from concord.schemas.columns import Reject
from concord.schemas.run import FileDigest, RowReject, RunKey, ShardMarker
from concord.workers.corpus.parquet import table_bytes
from concord.workers.corpus.shards import REPEATED, Shard
from concord.workers.storage.sealed import seal, unseal
from concord.workers.storage.storage import Storage, read_if_there

PREDICTIONS, REJECTS, TIMES, MARKERS = "predictions", "_rejects", "_times", "_shards"
CERTIFICATES = "_certificates"
"""Folders; readers of Parquet data sets leave out those that start with ``_``."""

KEY_BYTES = 32
"""Bytes of a shard's key."""

NAME_LENGTH = 32
"""Number of hex digits of a shard's key in the names of its files: 128 bits."""

Holds = Callable[[FileDigest], bool]
"""Whether a store holds a file of a shard, undamaged."""


def shard_key(shard: Shard, key: RunKey) -> str:
    """Hex digest of all that decides a shard's output."""
    return next(shard_keys([shard], key))


def shard_keys(shards: Iterable[Shard], key: RunKey) -> Iterator[str]:
    """`shard_key` of each of the shards."""
    run = key.digest
    return (hashlib.sha256(f"{shard.id}\0{run}".encode()).hexdigest() for shard in shards)


def shard_name(shard: Shard, key: RunKey) -> str:
    """The stem of the shard's files in the store: one for each content, wherever it stands in a corpus."""
    return shard_key(shard, key)[:NAME_LENGTH]


def marker_name(key: str) -> str:
    """The file of the marker of the shard with that key, in the folder `MARKERS` of the store."""
    return f"{key[:NAME_LENGTH]}.json"


def finished(key: str, store: Storage, *, holds: Holds) -> ShardMarker | None:
    """Marker of the shard with that key, if it is finished; None unless marker and files are undamaged.

    ``holds``: whether the store holds a file of the marker, undamaged.
    """
    marker = read_marker(store, f"{MARKERS}/{marker_name(key)}")
    if marker is None or marker.key != key:
        return None
    return marker if all(holds(entry) for entry in marker.files) else None


def read_marker(store: Storage, name: str) -> ShardMarker | None:
    """The marker in a file; None where there is none, where it is damaged or of another version."""
    data = read_if_there(store, name)
    content = None if data is None else unseal(data)
    try:
        return None if content is None else ShardMarker.model_validate(content)
    except ValidationError:
        return None


def write_marker(marker: ShardMarker, store: Storage) -> None:
    """Writes the marker of a finished shard, whose files must already be there. Raises `OutputError`."""
    store.write(f"{MARKERS}/{marker_name(marker.key)}", marker_bytes(marker))


def marker_bytes(marker: ShardMarker) -> bytes:
    """A marker's file; what is as by default is left out."""
    return seal(marker.model_dump(mode="json", exclude_defaults=True))


def write_table(table: pa.Table, store: Storage, folder: str, name: str) -> FileDigest:
    """Writes a table as ``folder/name.parquet``. Raises `OutputError`."""
    data, path = table_bytes(table), f"{folder}/{name}.parquet"
    store.write(path, data)
    return FileDigest(path=path, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


def without_place(rejects: Sequence[Reject], shard: Shard) -> tuple[RowReject, ...]:
    """Rejects without their place in a file: row numbers count from the shard's first row."""
    return tuple(
        RowReject(row=None if r.row is None else r.row - shard.first_row, doc_id=r.doc_id, reason=r.reason)
        for r in rejects
    )


def in_place(rejects: Sequence[RowReject], shard: Shard) -> list[Reject]:
    """Inverse of `without_place` for the shard's present place; the reason of a repeat gets the earlier one's place."""
    earlier = {(row, REPEATED): reason for row, reason in shard.repeats}
    return [
        Reject(
            shard.file.path,
            None if r.row is None else r.row + shard.first_row,
            r.doc_id,
            r.reason if r.row is None else earlier.get((r.row, r.reason), r.reason),
        )
        for r in rejects
    ]
