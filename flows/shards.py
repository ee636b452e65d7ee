"""Which shards a corpus has."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from schemas.settings import TextSettings
from workers.parquet import CorpusError, ParquetLocation, open_parquet, parquet_files, resolve
from workers.shard_io import DEFAULT_TEXT, Shard, shard_columns

CHUNK = 1 << 22
"""Bytes read at once while hashing."""


def plan(uri: str | Path, *, text: TextSettings = DEFAULT_TEXT) -> list[Shard]:
    """One shard a row group of the corpus at ``uri``: a Parquet file, a folder or a `pyarrow.fs` URI.

    Shards come in the order of file names and row groups. An id is made of the file's name below
    ``uri``, the row group's number and a digest of its stored bytes, so it never depends on
    workers and changes with the content. Empty row groups make no shard. Raises `CorpusError`
    and `SchemaError` for a file that is truncated or has the wrong columns, naming it.
    """
    return [shard for file in parquet_files(uri) for shard in _shards_of(file, text)]


def _shards_of(file: ParquetLocation, text: TextSettings) -> list[Shard]:
    parquet = open_parquet(file)
    shard_columns(parquet.schema_arrow, text, source=file.path)
    form = hashlib.blake2b(str(parquet.schema_arrow).encode(), digest_size=16).hexdigest()
    shards: list[Shard] = []
    first_row = 0
    with resolve(file.root)[0].open_input_file(file.path) as source:
        for group in range(parquet.num_row_groups):
            metadata = parquet.metadata.row_group(group)
            if metadata.num_rows:
                identity = hashlib.blake2b(f"{file.name}\n{group}\n{form}\n".encode(), digest_size=16)
                _hash_row_group(identity, source, metadata, file)
                shards.append(
                    Shard(identity.hexdigest(), file, group, first_row, metadata.num_rows, metadata.total_byte_size)
                )
            first_row += metadata.num_rows
    return shards


def _hash_row_group(
    identity: hashlib.blake2b, source: pa.NativeFile, metadata: pq.RowGroupMetaData, file: ParquetLocation
) -> None:
    chunks = [metadata.column(i) for i in range(metadata.num_columns)]
    place = min(c.dictionary_page_offset if c.has_dictionary_page else c.data_page_offset for c in chunks)
    left = sum(c.total_compressed_size for c in chunks)
    try:
        while left > 0:
            block = source.read_at(min(CHUNK, left), place)
            if not block:
                return
            identity.update(block)
            place, left = place + len(block), left - len(block)
    except OSError as error:
        raise CorpusError(
            f"{file.path}: cannot be read ({error}); check that it is whole, and copy it again"
        ) from error
