"""Reader of runs of consecutive rows of a Parquet file, across its row groups."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate

import pyarrow as pa
import pyarrow.parquet as pq

from concord.workers.corpus.parquet import ParquetLocation, codes_are_known, damaged, ids_as_text, with_text_ids

NO_ROWS = pa.record_batch({})

BATCH_BYTES = 256 << 10
"""Uncompressed size, in bytes, of the part of a row group that is decoded at once."""

WHOLE_BYTES = 8 << 20
"""Largest row group, in bytes, that is fetched as a whole; a larger one is fetched in parts."""


class RowRanges:
    """Reads runs of rows of one file.

    Parquet can only be decoded from the start of a row group. Runs in ascending order are cheap: each continues where
    the last one ended. A run before that place, or in a later row group, is decoded from the start of its row group.
    """

    def __init__(
        self, whole: pq.ParquetFile, in_parts: Callable[[], pq.ParquetFile], file: ParquetLocation, columns: list[str]
    ) -> None:
        """``whole`` is ``file`` opened so that row groups are fetched whole; ``in_parts`` opens it the other way.

        The first of the ``columns`` has the ids of documents, which are read as text.
        """
        self._whole, self._in_parts, self._file, self._columns = whole, in_parts, file, columns
        self.schema: pa.Schema = with_text_ids(whole.schema_arrow, columns[0])
        self.sizes = [whole.metadata.row_group(i).num_rows for i in range(whole.num_row_groups)]
        """Rows of each row group."""
        self.starts = [0, *accumulate(self.sizes)]
        """The first row of each row group, and behind the last one the number of rows."""
        self._group = -1
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._left = NO_ROWS
        self._row = self.starts[-1]
        """The row that comes next."""

    def read(self, first: int, rows: int) -> pa.Table:
        """``rows`` ≥ 1 rows from row ``first`` of the file on.

        Raises `CorpusError` where the file has not so many or the bytes up to their end are damaged.
        """
        if first + rows > self.starts[-1]:
            raise damaged(self._file, len(self.sizes) - 1, f"the file ends after {self.starts[-1]} rows")
        group = bisect_right(self.starts, first) - 1
        if first < self._row or group > self._group:
            self._begin(group)
        for _ in self._take(first - self._row):
            pass
        return pa.Table.from_batches(list(self._take(rows)))

    def batches(self, group: int) -> Iterator[pa.RecordBatch]:
        """All rows of a row group, about `BATCH_BYTES` at a time. Raises `CorpusError` where its bytes are damaged."""
        metadata = self._whole.metadata.row_group(group)
        parquet = self._whole if metadata.total_byte_size <= WHOLE_BYTES else self._in_parts()
        rows = max(1, min(self.sizes[group], self.sizes[group] * BATCH_BYTES // max(1, metadata.total_byte_size)))
        missing = self.sizes[group]
        try:
            for batch in parquet.iter_batches(rows, row_groups=[group], columns=self._columns, use_threads=False):
                if not all(codes_are_known(column) for column in batch.columns):
                    raise damaged(self._file, group, "a value points outside its dictionary")
                missing -= len(batch)
                yield ids_as_text(batch, self._columns[0])
        except (pa.ArrowException, OSError) as error:
            raise damaged(self._file, group, str(error)) from error
        if missing:
            raise damaged(self._file, group, f"it ends {missing} rows too early")

    def _begin(self, group: int) -> None:
        self._group, self._row, self._left = group, self.starts[group], NO_ROWS
        self._batches = self.batches(group)

    def _take(self, rows: int) -> Iterator[pa.RecordBatch]:
        """The next rows, decoded as they are asked for."""
        while rows:
            batch = self._left if len(self._left) else self._decode()
            part = batch.slice(0, rows)
            self._left = batch.slice(len(part))
            self._row += len(part)
            rows -= len(part)
            yield part

    def _decode(self) -> pa.RecordBatch:
        """The next batch, of the next row group where this one has no more."""
        row, self._row = self._row, self.starts[-1] + 1  # where this fails, whatever comes next starts anew
        while (batch := next(self._batches, None)) is None:
            self._begin(self._group + 1)
        self._row = row
        return batch
