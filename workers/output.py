"""A run's output folder: what each shard writes, atomically, and how a finished shard is known again.

``predictions/``, ``_rejects/`` and ``_shards/`` (markers) are the same, byte for byte, whatever the
number of workers; ``_times/`` differs from run to run. A shard's marker is written last.
"""

from __future__ import annotations

import hashlib
import io
import re
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from schemas.run import FileDigest, RunKey, ShardMarker
from workers.parquet import WRITE_OPTIONS
from workers.shard_io import Shard

PREDICTIONS, REJECTS, TIMES, MARKERS = "predictions", "_rejects", "_times", "_shards"
"""Folders; readers of Parquet data sets leave out those that start with ``_``."""

MANIFEST = "manifest.json"
TEMPORARY = ".tmp-"
"""How the name of a file in the making starts; a killed process may leave one behind."""


def shard_key(shard: Shard, key: RunKey) -> str:
    """Hex digest of all that decides a shard's output."""
    return hashlib.sha256(f"{shard.id}\0{key.digest}".encode()).hexdigest()


def shard_name(shard: Shard) -> str:
    """The stem of the shard's files: sorts as the corpus does, and changes with the content."""
    place = re.sub(r"[^A-Za-z0-9.]+", "-", shard.file.name.removesuffix(".parquet"))[:100]
    return f"{place}-{shard.row_group:05d}-{shard.start:08d}-{shard.id[:16]}"


def marker_path(out: Path, name: str) -> Path:
    """Where the marker of a shard is."""
    return out / MARKERS / f"{name}.json"


def read_marker(path: Path) -> ShardMarker | None:
    """The marker in a file; None where there is none or it is of another version."""
    try:
        return ShardMarker.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def finished(shard: Shard, key: RunKey, out: Path) -> ShardMarker | None:
    """The marker of a shard that need not be done again: same key, and its files have their sizes."""
    marker = read_marker(marker_path(out, shard_name(shard)))
    if marker is None or marker.key != shard_key(shard, key):
        return None
    for entry in marker.files:
        path = out / entry.path
        if not path.is_file() or path.stat().st_size != entry.bytes:
            return None
    return marker


def write_table(table: pa.Table, out: Path, folder: str, name: str) -> FileDigest:
    """Writes a table as ``folder/name.parquet``; equal tables give equal bytes."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **WRITE_OPTIONS)
    return write_bytes(buffer.getvalue(), out, f"{folder}/{name}.parquet")


def write_bytes(data: bytes, out: Path, relative: str) -> FileDigest:
    """Writes a file so that it is there as a whole or not at all."""
    path = out / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{TEMPORARY}{uuid.uuid4().hex}-{path.name}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return FileDigest(path=relative, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


def remove_leftovers(out: Path) -> int:
    """Removes what killed workers left half written; call it while no other run writes here."""
    found = [p for folder in (PREDICTIONS, REJECTS, TIMES, MARKERS) for p in (out / folder).glob(f"{TEMPORARY}*")]
    for path in found:
        path.unlink(missing_ok=True)
    return len(found)


def remove_shard(out: Path, name: str) -> None:
    """Removes the output of a shard that the corpus no longer has, marker first."""
    marker_path(out, name).unlink(missing_ok=True)
    for folder in (PREDICTIONS, REJECTS, TIMES):
        (out / folder / f"{name}.parquet").unlink(missing_ok=True)
