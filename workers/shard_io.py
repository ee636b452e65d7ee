"""A shard is a row group of a Parquet corpus or a part of one; this is how a worker reads it."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from schemas.columns import (
    CORPUS,
    LABELS,
    Reject,
    batch_from_table,
    check,
    corpus_columns,
    raw_strings,
    token_columns,
)
from schemas.document import TOKENS, Batch
from schemas.settings import TextSettings
from workers.parquet import ParquetLocation, open_parquet, read_row_group, resolve
from workers.readers.text import batch_from_text_table, check_text
from workers.row_ranges import RowRanges

DEFAULT_TEXT = TextSettings()

BUFFER_BYTES = 1 << 20
"""Bytes of a column that are fetched at once where a row group is read in parts."""


class Shard(NamedTuple):
    """A run of rows of one row group. ``id`` (hex) names its place in the corpus and its content, whoever reads it.

    ``start`` is its first row in the row group, ``first_row`` the same row's number in the file; ``size``
    are its bytes, uncompressed, estimated for a part of a row group. ``repeats`` are the rows of the shard
    whose document id an earlier row of the corpus has, with the reason for their rejects.
    """

    id: str
    file: ParquetLocation
    row_group: int
    start: int
    first_row: int
    rows: int
    size: int
    repeats: tuple[tuple[int, str], ...] = ()


def shard_columns(schema: pa.Schema, text: TextSettings, *, source: str) -> list[str]:
    """The columns a run needs of a corpus file, or of a raw-text file (no tokens); that of ids comes first.

    Raises `SchemaError`.
    """
    if schema.get_field_index(TOKENS) < 0 and schema.get_field_index(text.text_column) >= 0:
        check_text(schema, text, source=source)
        return [text.id_column, text.text_column]
    check(schema, CORPUS, source=source)
    return corpus_columns(schema)


def read_shard(shard: Shard, *, text: TextSettings = DEFAULT_TEXT) -> pa.Table:
    """The shard's rows; string lists are dictionary-encoded where the shard is a whole row group.

    The dictionary of a row group would have far more strings than a part of it needs. Raises `CorpusError`
    where the file or the row group is damaged, `SchemaError` where its columns are wrong.
    """
    version = _version(shard.file)
    parquet = _open(version)
    columns = shard_columns(parquet.schema_arrow, text, source=shard.file.path)
    if shard.rows == parquet.metadata.row_group(shard.row_group).num_rows:
        return read_row_group(parquet, shard.file, shard.row_group, columns)
    return _ranges(version, shard.row_group, tuple(columns)).read(shard.start, shard.rows)


def read_ids(file: ParquetLocation, row_group: int, *, text: TextSettings = DEFAULT_TEXT) -> list[bytes | None]:
    """The document ids of a row group as they are stored. Raises as `read_shard`."""
    parquet = _open(_version(file))
    name = shard_columns(parquet.schema_arrow, text, source=file.path)[0]
    column = read_row_group(parquet, file, row_group, [name])[name]
    ids: list[bytes | None] = raw_strings(column).to_pylist()
    return ids


def read_batch(shard: Shard, *, text: TextSettings = DEFAULT_TEXT) -> tuple[Batch, list[Reject]]:
    """The shard's good rows as a batch and its bad rows as rejects; raw text is tokenised on the way.

    Together they are all rows of the shard. Raises as `read_shard`.
    """
    table = read_shard(shard, text=text)
    source = shard.file.path
    if TOKENS not in table.column_names:
        return batch_from_text_table(
            table, text, source=source, first_row=shard.first_row, known_faults=dict(shard.repeats)
        )
    return batch_from_table(table, source=source, first_row=shard.first_row, known_faults=dict(shard.repeats))


class _FileVersion(NamedTuple):
    """A file as it was when it was opened, so that one that was replaced is opened anew."""

    file: ParquetLocation
    size: int | None
    modified: int | None


def _version(file: ParquetLocation) -> _FileVersion:
    system, _ = resolve(file.root)
    info = system.get_file_info(file.path)
    return _FileVersion(file, info.size, info.mtime_ns)


@lru_cache(maxsize=2)
def _open(version: _FileVersion) -> pq.ParquetFile:
    """The file, its footer parsed once for all its row groups: that of a huge file has megabytes."""
    plain = open_parquet(version.file)
    names = {*token_columns(plain.schema_arrow), LABELS}
    leaves = [plain.schema.column(i).path for i in range(len(plain.schema))]
    return open_parquet(version.file, dictionary_leaves=[leaf for leaf in leaves if leaf.split(".")[0] in names])


@lru_cache(maxsize=2)
def _open_in_parts(version: _FileVersion) -> pq.ParquetFile:
    return open_parquet(version.file, buffer_bytes=BUFFER_BYTES)


@lru_cache(maxsize=2)
def _ranges(version: _FileVersion, row_group: int, columns: tuple[str, ...]) -> RowRanges:
    """Kept from shard to shard, so that a row group is not decoded anew for each of its parts."""
    return RowRanges(_open_in_parts(version), version.file, row_group, list(columns))
