"""Which row groups a corpus has."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from schemas.settings import TextSettings
from workers.parquet import CorpusError, ParquetLocation, open_parquet, resolve
from workers.shard_io import shard_columns

CHUNK = 1 << 22
"""Bytes read at once while hashing."""


class RowGroup(NamedTuple):
    """A row group that has rows: its number in the file, its first row there, its rows and bytes (uncompressed).

    ``content`` (hex) is a digest of the whole file.
    """

    file: ParquetLocation
    number: int
    first_row: int
    rows: int
    size: int
    content: str


def row_groups(file: ParquetLocation, text: TextSettings) -> list[RowGroup]:
    """The file's row groups. Raises `CorpusError` and `SchemaError` where it is damaged or has the wrong columns."""
    parquet = open_parquet(file)
    shard_columns(parquet.schema_arrow, text, source=file.path)
    content = _digest(file)
    groups: list[RowGroup] = []
    first_row = 0
    for number in range(parquet.num_row_groups):
        metadata = parquet.metadata.row_group(number)
        if metadata.num_rows:
            groups.append(RowGroup(file, number, first_row, metadata.num_rows, metadata.total_byte_size, content))
        first_row += metadata.num_rows
    return groups


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
