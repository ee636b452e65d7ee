"""Which shards a corpus has."""

from __future__ import annotations

import hashlib
from pathlib import Path

from schemas.settings import TextSettings
from workers.parquet import CorpusError, ParquetLocation, open_parquet, parquet_files, resolve
from workers.shard_io import DEFAULT_TEXT, Shard, shard_columns

CHUNK = 1 << 22
"""Bytes read at once while hashing."""


def plan(uri: str | Path, *, text: TextSettings = DEFAULT_TEXT) -> list[Shard]:
    """One shard a row group of the corpus at ``uri``: a Parquet file, a folder or a `pyarrow.fs` URI.

    Shards come in the order of file names and row groups. An id is made of the file's name below
    ``uri``, the row group's number and a digest of the file, so it never depends on workers and
    changes with the content. Empty row groups make no shard. Raises `CorpusError`
    and `SchemaError` for a file that is truncated or has the wrong columns, naming it.
    """
    return [shard for file in parquet_files(uri) for shard in _shards_of(file, text)]


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
