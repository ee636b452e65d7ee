"""Rows whose document id an earlier row of the corpus has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from flows.row_groups import RowGroup
from schemas.settings import TextSettings
from workers.parquet import CorpusError
from workers.shard_io import read_ids

Repeats = list[tuple[int, str]]
"""Rows of a row group, rising, each with the reason for its reject."""


def repeated_ids(groups: Sequence[RowGroup], text: TextSettings) -> list[Repeats]:
    """The repeats of each row group: chance and predictions go by document id, so an id may be there once.

    Holds 16 bytes a document, and the ids themselves only where two have one hash.
    """
    hashes = [_id_hashes(group, text) for group in groups]
    every = np.concatenate([np.zeros(0, np.int64), *hashes])
    every.sort()
    shared = every[1:][every[1:] == every[:-1]]
    if not len(shared):
        return [[] for _ in groups]
    seen: dict[bytes, str] = {}
    suspects = (np.flatnonzero(shared.take(np.searchsorted(shared, part), mode="clip") == part) for part in hashes)
    return [_seen_before(group, rows.tolist(), seen, text) for group, rows in zip(groups, suspects, strict=True)]


def _id_hashes(group: RowGroup, text: TextSettings) -> NDArray[np.int64]:
    """(rows,) Python's hashes, which differ from process to process: equal ones are always looked at again."""
    try:
        ids = read_ids(group.file, group.number, text=text)
    except CorpusError:
        return np.zeros(0, np.int64)  # the shard's worker meets it again and reports it
    return np.fromiter(map(hash, ids), np.int64, len(ids))


def _seen_before(group: RowGroup, rows: Sequence[int], seen: dict[bytes, str], text: TextSettings) -> Repeats:
    """Those of ``rows`` whose id is in ``seen`` (id → place); the other ids go into it."""
    if not rows:
        return []
    ids = read_ids(group.file, group.number, text=text)
    repeats: Repeats = []
    for row in rows:
        doc_id = ids[row]
        if doc_id is None:
            continue
        place = f"row {group.first_row + row} of {group.file.name}"
        first = seen.setdefault(doc_id, place)
        if first != place:
            repeats.append((row, f"doc_id is that of {first} too"))
    return repeats
