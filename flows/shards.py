"""Which shards a corpus has, and in which order they are handed out."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path

from flows.repeated_ids import Repeats, repeated_ids
from flows.row_groups import RowGroup, row_groups
from schemas.settings import TextSettings
from workers.parquet import parquet_files
from workers.shard_io import DEFAULT_TEXT, Shard

SHARD_BYTES = 256 << 10
"""Bytes of a row group, uncompressed, that make a shard: about 50,000 tokens of raw text.

A shard costs half a millisecond beside its worker's time (benchmarks/bench_growth.py) and some within it. Larger
ones leave workers idle at the end where documents are uneven; smaller ones share fewer known words, and Viterbi,
the fastest engine, gets slower with them.
"""


def plan(uri: str | Path, *, text: TextSettings = DEFAULT_TEXT) -> list[Shard]:
    """The shards of the corpus at ``uri``: a Parquet file, a folder or a `pyarrow.fs` URI.

    A shard is a row group, or one of the runs of rows into which a large one is cut. Shards come in the
    order of file names and rows. An id is made of the file's name below ``uri``, the row group's number,
    the rows and a digest of the file, so it never depends on workers and changes with the content.
    Empty row groups make no shard. Rows whose document id an earlier row has are marked in their shards.
    Raises `CorpusError` and `SchemaError` for a file that is truncated or has the wrong columns, naming it.
    """
    groups = [group for file in parquet_files(uri) for group in row_groups(file, text)]
    found = zip(groups, repeated_ids(groups, text), strict=True)
    return [shard for group, repeats in found for shard in _cut(group, repeats)]


def largest_first(shards: Sequence[Shard]) -> list[Shard]:
    """The shards by falling size, so that the last to be done are short; those of one size keep their order."""
    return sorted(shards, key=lambda shard: shard.size, reverse=True)


def _cut(group: RowGroup, repeats: Repeats) -> Iterator[Shard]:
    """The row group in parts of about `SHARD_BYTES`, whose rows differ by one at most.

    Only the bytes of the whole row group are known, so they are taken to be even over its rows. The parts
    with a row more come first: `largest_first` leaves the order of rows then, the cheap one to read in.
    """
    parts = min(group.rows, max(1, round(group.size / SHARD_BYTES)))
    least, more = divmod(group.rows, parts)
    for part in range(parts):
        start, rows = part * least + min(part, more), least + (part < more)
        here = repeats[bisect_left(repeats, (start,)) : bisect_left(repeats, (start + rows,))]
        yield Shard(
            _identity(group, start, rows, here),
            group.file,
            group.number,
            start,
            group.first_row + start,
            rows,
            group.size * rows // group.rows,
            tuple((row - start, reason) for row, reason in here),
        )


def _identity(group: RowGroup, start: int, rows: int, repeats: Repeats) -> str:
    """What is rejected depends on other files, so a change there must make the shard another one."""
    parts = (group.file.name, group.number, start, rows, group.content, repeats)
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()
