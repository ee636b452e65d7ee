"""Which shards a corpus has."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from schemas.settings import TextSettings
from workers.parquet import CorpusError, ParquetLocation, open_parquet, parquet_files, resolve
from workers.shard_io import DEFAULT_TEXT, Shard, read_ids, shard_columns

CHUNK = 1 << 22
"""Bytes read at once while hashing."""


def plan(uri: str | Path, *, text: TextSettings = DEFAULT_TEXT) -> list[Shard]:
    """One shard a row group of the corpus at ``uri``: a Parquet file, a folder or a `pyarrow.fs` URI.

    Shards come in the order of file names and row groups. An id is made of the file's name below
    ``uri``, the row group's number and a digest of the file, so it never depends on workers and
    changes with the content. Empty row groups make no shard. Rows whose document id an earlier row has
    are marked in their shards. Raises `CorpusError` and `SchemaError` for a file that is truncated or has
    the wrong columns, naming it.
    """
    shards = [shard for file in parquet_files(uri) for shard in _shards_of(file, text)]
    return _mark_repeats(shards, text)


def _shards_of(file: ParquetLocation, text: TextSettings) -> list[Shard]:
    parquet = open_parquet(file)
    shard_columns(parquet.schema_arrow, text, source=file.path)
    content = _digest(file)
    shards: list[Shard] = []
    first_row = 0
    for group in range(parquet.num_row_groups):
        metadata = parquet.metadata.row_group(group)
        if metadata.num_rows:
            identity = hashlib.blake2b(f"{file.name}\n{group}\n{content}".encode(), digest_size=16).hexdigest()
            shards.append(Shard(identity, file, group, first_row, metadata.num_rows, metadata.total_byte_size))
        first_row += metadata.num_rows
    return shards


def _digest(file: ParquetLocation) -> str:
    """Digest of the whole file.

    A row group's own bytes would do, but pyarrow ends the process when it is asked where they
    are in a file whose footer is damaged.
    """
    digest = hashlib.blake2b(digest_size=16)
    system, _ = resolve(file.root)
    try:
        with system.open_input_stream(file.path, compression=None) as stream:
            while block := stream.read(CHUNK):
                digest.update(block)
    except OSError as error:
        raise CorpusError(
            f"{file.path}: cannot be read ({error}); check that it is whole, and copy it again"
        ) from error
    return digest.hexdigest()


def _mark_repeats(shards: Sequence[Shard], text: TextSettings) -> list[Shard]:
    """The shards with `Shard.repeats`: chance and predictions go by document id, so an id may be there once.

    Holds 16 bytes a document, and the ids themselves only where two have one hash.
    """
    hashes = [_id_hashes(shard, text) for shard in shards]
    every = np.concatenate([np.zeros(0, np.int64), *hashes])
    every.sort()
    shared = every[1:][every[1:] == every[:-1]]
    if not len(shared):
        return list(shards)
    seen: dict[bytes, str] = {}
    suspects = (np.flatnonzero(shared.take(np.searchsorted(shared, part), mode="clip") == part) for part in hashes)
    return [_marked(shard, rows.tolist(), seen, text) for shard, rows in zip(shards, suspects, strict=True)]


def _id_hashes(shard: Shard, text: TextSettings) -> NDArray[np.int64]:
    """(rows,) Python's hashes, which differ from process to process: equal ones are always looked at again."""
    try:
        ids = read_ids(shard, text=text)
    except CorpusError:
        return np.zeros(0, np.int64)  # the shard's worker meets it again and reports it
    return np.fromiter(map(hash, ids), np.int64, len(ids))


def _marked(shard: Shard, rows: Sequence[int], seen: dict[bytes, str], text: TextSettings) -> Shard:
    """The shard with those of ``rows`` whose id is in ``seen`` (id → place); the other ids go into it."""
    if not rows:
        return shard
    ids = read_ids(shard, text=text)
    repeats: list[tuple[int, str]] = []
    for row in rows:
        doc_id = ids[row]
        if doc_id is None:
            continue
        place = f"row {shard.first_row + row} of {shard.file.name}"
        first = seen.setdefault(doc_id, place)
        if first != place:
            repeats.append((row, f"doc_id is that of {first} too"))
    if not repeats:
        return shard
    # What is rejected depends on other files, so a change there must make this shard another one.
    identity = hashlib.blake2b(f"{shard.id}\n{repeats}".encode(), digest_size=16).hexdigest()
    return shard._replace(id=identity, repeats=tuple(repeats))
