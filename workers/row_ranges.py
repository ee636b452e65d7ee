"""Rows of a large row group, a run of them at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from workers.parquet import ParquetLocation, damaged

NOTHING = pa.record_batch({})


class RowRanges:
    """Reads runs of rows of one row group.

    Parquet can only be decoded from a row group's start on, so runs in rising order are cheap: each goes
    on where the last one ended. An earlier run starts over.
    """

    def __init__(self, parquet: pq.ParquetFile, file: ParquetLocation, row_group: int, columns: list[str]) -> None:
        """``parquet`` is ``file``, opened."""
        self._parquet, self._file, self._row_group, self._columns = parquet, file, row_group, columns
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._left = NOTHING
        self._row = 0
        """The row that comes next; at 0 reading starts over."""

    def read(self, start: int, rows: int) -> pa.Table:
        """``rows`` ≥ 1 rows from row ``start`` of the row group on.

        Raises `CorpusError` where the bytes up to their end are damaged.
        """
        if start < self._row or not self._row:
            self._start_over(batch_rows=rows)
        for _ in self._take(start - self._row):
            pass
        return pa.Table.from_batches(list(self._take(rows)))

    def _start_over(self, *, batch_rows: int) -> None:
        self._batches = self._parquet.iter_batches(
            batch_rows, row_groups=[self._row_group], columns=self._columns, use_threads=False
        )
        self._left, self._row = NOTHING, 0

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
        try:
            batch = next(self._batches, None)
        except (pa.ArrowException, OSError) as error:
            self._row = 0
            raise damaged(self._file, self._row_group, str(error)) from error
        if batch is None:
            raise damaged(self._file, self._row_group, f"it ends after {self._row} rows")
        return batch
