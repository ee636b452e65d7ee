"""The rows of some documents of a corpus, named by their ids."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from concord.schemas.document import ScoreColumn
from concord.schemas.errors import CorpusError
from concord.schemas.settings import TextSettings
from concord.workers.corpus.row_digests import digest_of_rows
from concord.workers.corpus.row_runs import RowRun, id_hash
from concord.workers.corpus.run_table import RunTable, runs_with
from concord.workers.corpus.shards import read_keys


def chosen_runs(
    tables: Sequence[RunTable], only: Collection[str], text: TextSettings, scores: ScoreColumn | None = None
) -> list[RunTable]:
    """The rows of the documents ``only``, each sequence of neighbours as a run, in the order of the corpus.

    Reads only the runs that have one of the ids, by its hash. Raises `CorpusError` for no id, and for one that no
    row has, and what reading raises.
    """
    encoded_ids = {doc.encode() for doc in only}
    if not encoded_ids:
        raise CorpusError("no document is asked for; give the ids of some, or none at all for the whole corpus")
    hashes = np.array([id_hash(doc) for doc in encoded_ids], np.int64)
    runs: list[RunTable] = []
    present = set[bytes]()
    for table in tables:
        parts: list[RowRun] = []
        for number in runs_with(table, np.flatnonzero(np.isin(table.ids, hashes))):
            run = table.run(number)
            ids, digests = zip(*read_keys(run.shard(scores), text=text), strict=True)
            rows = [row for row, doc in enumerate(ids) if doc in encoded_ids]
            present.update(ids[row] for row in rows)
            parts += _parts(run, rows, digests)
        if parts:
            runs.append(RunTable.of(table.file, parts))
    missing = sorted(encoded_ids - present)
    if missing:
        raise CorpusError(
            f"{len(missing):,} of the {len(encoded_ids):,} documents asked for are not in the corpus; the first is "
            f"{missing[0].decode()!r}; look at the ids and at their column"
        )
    return runs


def _parts(run: RowRun, rows: Sequence[int], digests: Sequence[bytes]) -> Iterator[RowRun]:
    """A run for each sequence of neighbours among rows of a run (ascending)."""
    ends = np.flatnonzero(np.diff(rows) > 1) + 1
    for part in np.split(np.asarray(rows, np.int64), ends):
        if len(part):
            first, end = int(part[0]), int(part[-1]) + 1
            size = max(1, run.size * (end - first) // run.rows)
            digest = digest_of_rows(digests[first:end])
            yield RowRun(run.file, run.first_row + first, end - first, size, digest, run.ids[first:end])
