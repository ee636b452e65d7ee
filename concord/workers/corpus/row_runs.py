"""Content-defined cutting of a file into shards: a change of some rows moves only the cuts near them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from concord.schemas.document import TOKENS, ScoreColumn
from concord.schemas.errors import CorpusError
from concord.schemas.settings import TextSettings
from concord.workers.corpus.parquet import ParquetLocation
from concord.workers.corpus.row_digests import digest_of_rows, row_digests, row_sizes
from concord.workers.corpus.shards import Shard, open_rows, shard_columns, stored_ids

LEAST, MOST = 0.5, 1.5
"""Smallest and largest size of a run, as fractions of the wanted size; sizes are evenly spread between them, so that
the mean is the wanted one."""

ROW_BYTES, ROW_SHARE = 2 << 10, 128
"""Cost of a row besides its text, because even a short document costs something: bytes of text, and its largest
fraction of a run."""


class RowRun(NamedTuple):
    """A run of consecutive rows that makes a shard, see `corpus.shards.Shard`.

    ``ids`` (rows,) are hashes of the document ids.
    """

    file: ParquetLocation
    first_row: int
    rows: int
    size: int
    digest: str
    ids: NDArray[np.int64]

    def shard(self, scores: ScoreColumn | None) -> Shard:
        """These rows as a shard without an id, to be read with the column ``scores``."""
        return Shard("", self.file, self.first_row, self.rows, self.size, self.digest, scores=scores)


def row_runs(
    file: ParquetLocation, text: TextSettings, run_bytes: int, scores: ScoreColumn | None = None
) -> Iterator[RowRun | CorpusError]:
    """Runs of a file of about ``run_bytes`` bytes of text each; an error in the place of rows that cannot be read.

    Reads the whole file, and holds one run and a few rows in memory. Raises `SchemaError` where it has the wrong
    columns.
    """
    try:
        ranges = open_rows(file, text=text, scores=scores)
    except CorpusError as error:
        yield error
        return
    names = shard_columns(ranges.schema, text, source=file.path, scores=scores)
    sized = TOKENS if TOKENS in names else text.text_column
    waiting = _Waiting(file, run_bytes)
    for group, start in enumerate(ranges.starts[:-1]):
        try:
            for batch in ranges.batches(group):
                table = pa.Table.from_batches([batch])
                waiting.add(row_digests(table), row_sizes(table[sized]), stored_ids(table[names[0]]))
                yield from waiting.runs(MOST * run_bytes)
        except CorpusError as error:
            yield from waiting.runs(run_bytes)
            yield from waiting.runs(0)
            yield error
            waiting = _Waiting(file, run_bytes, start + ranges.sizes[group])
    yield from waiting.runs(run_bytes)
    yield from waiting.runs(0)


class _Waiting:
    """Buffer of rows that are not in a run yet."""

    def __init__(self, file: ParquetLocation, run_bytes: int, first_row: int = 0) -> None:
        self.file, self.run_bytes, self.first_row = file, run_bytes, first_row
        self.row_bytes = min(ROW_BYTES, run_bytes // ROW_SHARE)
        self.digests: list[bytes] = []
        self.sizes: list[int] = []
        self.ids: list[int] = []
        self.size = 0

    def add(self, digests: Sequence[bytes], sizes: Sequence[int], ids: Sequence[bytes | None]) -> None:
        self.digests += digests
        self.sizes += (size + self.row_bytes for size in sizes)
        self.ids += map(id_hash, ids)
        self.size = sum(self.sizes)

    def runs(self, limit: float) -> Iterator[RowRun]:
        """Takes runs off as long as more than ``limit`` bytes wait."""
        while self.size > limit:
            end = cut(self.sizes, self.digests, self.run_bytes)
            size = sum(self.sizes[:end])
            ids = np.array(self.ids[:end], np.int64)
            yield RowRun(self.file, self.first_row, end, size, digest_of_rows(self.digests[:end]), ids)
            del self.digests[:end], self.sizes[:end], self.ids[:end]
            self.first_row += end
            self.size -= size


def id_hash(doc_id: bytes | None) -> int:
    """64 bits of an id, the same in every process; 0 for null."""
    if doc_id is None:
        return 0
    return int.from_bytes(hashlib.blake2b(doc_id, digest_size=8).digest(), "little", signed=True)


def cut(sizes: Sequence[int], digests: Sequence[bytes], run_bytes: int) -> int:
    """Number of rows, at least 1, in the first run.

    Among the rows at which the run has between `LEAST` and `MOST` of ``run_bytes``, it ends with the row of smallest
    digest; that is the same row wherever the run began. A row that is too large for that is a run by itself.
    """
    size, best = 0, -1
    for row, (more, digest) in enumerate(zip(sizes, digests, strict=True)):
        size += more
        if size > MOST * run_bytes:
            return best + 1 or max(row, 1)
        if size >= LEAST * run_bytes and (best < 0 or digest < digests[best]):
            best = row
    return best + 1 or len(sizes)
