"""Repeats: rows with the document id of an earlier row of the corpus."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from concord.schemas.arrays import Ints
from concord.schemas.document import ScoreColumn
from concord.schemas.settings import TextSettings
from concord.workers.corpus.run_table import RunTable, runs_with
from concord.workers.corpus.shards import Shard, read_ids

Repeats = tuple[tuple[int, str], ...]
"""Repeats of a run: row numbers in ascending order, each with the reason for its reject."""

PARTITION_IDS = 1 << 24
"""Ids, about, that are compared at once."""


def repeated_ids(
    tables: Sequence[RunTable], text: TextSettings, scores: ScoreColumn | None = None
) -> dict[int, Repeats]:
    """Repeats of the runs that have some, by place in the corpus.

    An id may occur only once, because random streams and predictions go by document id. Only ids whose hash occurs
    twice are read again and compared. Raises what reading raises.
    """
    shared = _shared_hashes([table.ids for table in tables])
    repeats: dict[int, Repeats] = {}
    if not len(shared):
        return repeats
    places: dict[bytes, str] = {}
    before = 0
    for table in tables:
        suspects = shared.take(np.searchsorted(shared, table.ids), mode="clip") == table.ids
        for number, rows in runs_with(table, np.flatnonzero(suspects)).items():
            own = _seen_before(table.run(number).shard(scores), rows.tolist(), places, text)
            if own:
                repeats[before + number] = own
        before += len(table)
    return repeats


def _shared_hashes(ids: Sequence[Ints]) -> Ints:
    """Hashes that occur twice, ascending: partition by partition of all hashes, each by the first bits."""
    bits = max(1, (sum(map(len, ids)) // PARTITION_IDS).bit_length())
    half = 1 << (bits - 1)
    return np.concatenate([_twice([own[own >> (64 - bits) == part] for own in ids]) for part in range(-half, half)])


def _twice(parts: Sequence[Ints]) -> Ints:
    every: Ints = np.concatenate([np.zeros(0, np.int64), *parts])
    every.sort()
    again: Ints = every[1:][every[1:] == every[:-1]]
    return again


def _seen_before(shard: Shard, rows: Sequence[int], places: dict[bytes, str], text: TextSettings) -> Repeats:
    """The ones of ``rows`` whose id is already in ``places`` (id → place); the ids of the others are added to it."""
    ids = read_ids(shard, text=text)
    repeats: list[tuple[int, str]] = []
    for row in rows:
        doc_id = ids[row]
        if doc_id is None:
            continue
        place = f"row {shard.first_row + row} of {shard.file.name}"
        first = places.setdefault(doc_id, place)
        if first != place:
            repeats.append((row, f"doc_id is that of {first} too"))
    return tuple(repeats)
