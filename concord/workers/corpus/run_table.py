"""The runs of a file in columns: a corpus has millions of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from concord.schemas.arrays import Bytes, Ints
from concord.workers.corpus.parquet import ParquetLocation
from concord.workers.corpus.row_digests import DIGEST_BYTES
from concord.workers.corpus.row_runs import RowRun


@dataclass(frozen=True, eq=False, repr=False)
class RunTable:
    """Runs of rows of one file, see `workers.corpus.row_runs`.

    - ``first_row``, ``rows``, ``size`` (R,): as `RowRun` has them.
    - ``digest`` (R, 16): bytes of their digests.
    - ``ids``: hashes of the document ids of all rows, run after run.
    """

    file: ParquetLocation
    first_row: Ints
    rows: Ints
    size: Ints
    digest: Bytes
    ids: Ints

    @classmethod
    def of(cls, file: ParquetLocation, runs: Sequence[RowRun]) -> RunTable:
        """These runs of the file."""
        first_row, rows, size = np.array([run[1:4] for run in runs], np.int64).reshape(-1, 3).T.copy()
        ids = np.concatenate([np.zeros(0, np.int64), *(run.ids for run in runs)])
        return cls(file, first_row, rows, size, digest_array([run.digest for run in runs]), ids)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def starts(self) -> Ints:
        """(R + 1,) places of the runs in ``ids``."""
        return np.concatenate([[0], np.cumsum(self.rows)])

    def run(self, number: int) -> RowRun:
        """One of the runs."""
        start, rows = int(self.rows[:number].sum()), int(self.rows[number])
        digest = self.digest[number].tobytes().hex()
        ids = self.ids[start : start + rows]
        return RowRun(self.file, int(self.first_row[number]), rows, int(self.size[number]), digest, ids)


def runs_with(table: RunTable, places: Ints) -> dict[int, Ints]:
    """The runs that have some of these places (ascending) in ``ids``, by number: their rows there."""
    run = np.searchsorted(table.starts, places, side="right") - 1
    rows = places - table.starts[run]
    return {int(number): rows[run == number] for number in np.unique(run)}


def digest_array(digests: Sequence[str]) -> Bytes:
    """(R, 16) bytes of digests of rows, from hex digits."""
    return np.frombuffer(bytes.fromhex("".join(digests)), np.uint8).reshape(-1, DIGEST_BYTES)
