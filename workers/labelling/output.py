"""What each shard writes, and how a finished shard is known again.

A run's folder keeps the work of its shards in a store, by key: what a key names is the same, byte for byte, whoever
did it and whenever, but for ``_times/``. A shard's marker is written last. See `flows.runfolder` for what readers see.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from pydantic import ValidationError

from concord.schemas.columns import Reject
from concord.schemas.run import FileDigest, RowReject, RunKey, ShardMarker
from concord.workers.corpus.parquet import table_bytes
from concord.workers.corpus.shards import REPEATED, Shard
from concord.workers.storage.files import OutputError, write_whole
from concord.workers.storage.sealed import seal, unseal

PREDICTIONS, REJECTS, TIMES, MARKERS = "predictions", "_rejects", "_times", "_shards"
CERTIFICATES = "_certificates"
"""Folders; readers of Parquet data sets leave out those that start with ``_``."""

NAME_LENGTH = 32
"""Digits of a shard's key that make the name of its files: 128 bits."""


def shard_key(shard: Shard, key: RunKey) -> str:
    """Hex digest of all that decides a shard's output."""
    return hashlib.sha256(f"{shard.id}\0{key.digest}".encode()).hexdigest()


def shard_name(shard: Shard, key: RunKey) -> str:
    """The stem of the shard's files in the store: one for each content, wherever it stands in a corpus."""
    return shard_key(shard, key)[:NAME_LENGTH]


def finished(shard: Shard, key: RunKey, store: Path) -> ShardMarker | None:
    """The marker of a shard that need not be done again: same key, and neither it nor its files are damaged."""
    marker = read_marker(store / MARKERS / f"{shard_name(shard, key)}.json")
    if marker is None or marker.key != shard_key(shard, key):
        return None
    return marker if all(intact(store / entry.path, entry) for entry in marker.files) else None


def read_marker(path: Path) -> ShardMarker | None:
    """The marker in a file; None where there is none, where it is damaged or of another version."""
    try:
        content = unseal(path.read_bytes())
    except OSError:
        return None
    try:
        return None if content is None else ShardMarker.model_validate(content)
    except ValidationError:
        return None


def write_marker(marker: ShardMarker, store: Path) -> None:
    """Says that the shard is done; its files have to be on the disk. Raises `OutputError`."""
    write_whole(store / MARKERS / f"{marker.key[:NAME_LENGTH]}.json", seal(marker.model_dump(mode="json")))


def intact(path: Path, entry: FileDigest) -> bool:
    """Is the file there with the bytes that were written?"""
    try:
        if path.stat().st_size != entry.bytes:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == entry.sha256
    except OSError:
        return False


def write_table(table: pa.Table, root: Path, folder: str, name: str) -> FileDigest:
    """Writes a table as ``folder/name.parquet`` below ``root``. Raises `OutputError`."""
    data, path = table_bytes(table), f"{folder}/{name}.parquet"
    write_whole(root / path, data)
    return FileDigest(path=path, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


def without_place(rejects: Sequence[Reject], shard: Shard) -> tuple[RowReject, ...]:
    """The rejects as they are for these rows in any file: rows count from the shard's first."""
    return tuple(
        RowReject(row=None if r.row is None else r.row - shard.first_row, doc_id=r.doc_id, reason=r.reason)
        for r in rejects
    )


def in_place(rejects: Sequence[RowReject], shard: Shard) -> list[Reject]:
    """The inverse of `without_place`, where the shard stands now; a repeat is told where the earlier one stands."""
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


def remove(paths: Sequence[Path]) -> None:
    """Removes files, those that are there. Raises `OutputError`."""
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise OutputError(f"{path}: cannot be removed ({error.strerror}); see to its rights") from error
