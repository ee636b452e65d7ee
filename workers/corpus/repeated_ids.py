"""Repeats: rows with the document id of an earlier row of the corpus."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from concord.schemas.document import ScoreColumn
from concord.schemas.settings import TextSettings
from concord.workers.corpus.row_runs import RowRun
from concord.workers.corpus.shards import Shard, read_ids

Repeats = tuple[tuple[int, str], ...]
"""Repeats of a run: row numbers in ascending order, each with the reason for its reject."""


def repeated_ids(runs: Sequence[RowRun], text: TextSettings, scores: ScoreColumn | None = None) -> list[Repeats]:
    """Repeats of each run. An id may occur only once, because random streams and predictions go by document id.

    Holds 16 bytes a document in memory. Only ids whose hash occurs twice are read again and compared. Raises what
    reading raises.
    """
    every = np.concatenate([np.zeros(0, np.int64), *(run.ids for run in runs)])
    every.sort()
    shared = every[1:][every[1:] == every[:-1]]
    if not len(shared):
        return [() for _ in runs]
    seen: dict[bytes, str] = {}
    suspects = (np.flatnonzero(shared.take(np.searchsorted(shared, run.ids), mode="clip") == run.ids) for run in runs)
    shards = (run.shard(scores) for run in runs)
    return [_seen_before(shard, rows.tolist(), seen, text) for shard, rows in zip(shards, suspects, strict=True)]


def _seen_before(shard: Shard, rows: Sequence[int], seen: dict[bytes, str], text: TextSettings) -> Repeats:
    """The ones of ``rows`` whose id is already in ``seen`` (id → place); the ids of the others are added to it."""
    if not rows:
        return ()
    ids = read_ids(shard, text=text)
    repeats: list[tuple[int, str]] = []
    for row in rows:
        doc_id = ids[row]
        if doc_id is None:
            continue
        place = f"row {shard.first_row + row} of {shard.file.name}"
        first = seen.setdefault(doc_id, place)
        if first != place:
            repeats.append((row, f"doc_id is that of {first} too"))
    return tuple(repeats)
