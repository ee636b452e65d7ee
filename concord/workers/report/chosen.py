"""Documents that a page shows: the most telling ones of each kind, and as many as there is room for."""

from __future__ import annotations

import hashlib
import heapq
import json
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain, zip_longest
from typing import Any, NamedTuple

from concord.workers.report.answered import AnsweredDocument
from concord.workers.report.viewed import viewed

MOST_DATA = 1_100_000
"""Largest size of the documents of a page, in compressed bytes; a third more as the page has them."""

MOST_KINDS = 64
"""Largest number of kinds of changes of which each has documents of its own."""

CHANGED, OTHERWISE, WRONG_ANSWER, OPEN, SLOW, ANY_ONE = (
    "changed",
    "differs from the other run",
    "wrong by gold",
    "gap is open",
    "slow",
    "any",
)
"""Why a document is shown."""

ROOM = {CHANGED: 60, OTHERWISE: 60, WRONG_ANSWER: 60, OPEN: 40, SLOW: 20, ANY_ONE: 20}
"""Largest number of documents that are shown for each reason."""

ROOM_OF_A_KIND = 3
"""The same for each kind of change, such as from ORG to LOC."""


class _Entry(NamedTuple):
    """A document in the line for a reason: it stands before those with lower values, then by a hash of its id."""

    value: float
    hash: bytes
    document: dict[str, Any]

    @property
    def rank(self) -> tuple[float, bytes]:
        return self.value, self.hash

    def __lt__(self, other: tuple[Any, ...]) -> bool:
        return self.rank < other[:2]


class ShownDocuments:
    """The documents that are shown, of all that are offered, in whatever order."""

    def __init__(self) -> None:
        self._lines: dict[str, list[_Entry]] = {}

    def offer(self, document: AnsweredDocument, *, gap: float) -> None:
        """Takes a document for each reason for which it stands before one that was taken; ``gap`` in nats."""
        doc_id = str(document.value("doc_id"))
        own = hashlib.blake2b(doc_id.encode(), digest_size=8).digest()
        view: dict[str, Any] | None = None
        for line, room, value in self._reasons(document, gap):
            held = self._lines.setdefault(line, [])
            if len(held) == room and (value, own) <= held[0].rank:
                continue
            view = view or viewed(document, gap=gap)
            entry = _Entry(value, own, view)
            (heapq.heappush if len(held) < room else heapq.heapreplace)(held, entry)

    def _reasons(self, document: AnsweredDocument, gap: float) -> Iterator[tuple[str, int, float]]:
        """Lines that a document may stand in, their room, and how telling it is."""
        values = {
            CHANGED: len(document.changes),
            OTHERWISE: len(document.other_changes),
            WRONG_ANSWER: len(document.errors),
            OPEN: gap,
            SLOW: document.seconds or 0.0,
        }
        yield from ((reason, ROOM[reason], float(value)) for reason, value in values.items() if value > 0)
        yield ANY_ONE, ROOM[ANY_ONE], 0.0
        kinds = dict.fromkeys(change.kind for change in chain(document.changes, document.other_changes))
        for kind in kinds:
            line = " → ".join(kind)
            if line in self._lines or len(self._lines) < MOST_KINDS + len(ROOM):
                yield line, ROOM_OF_A_KIND, float(len(document.changes))

    def documents(self) -> list[dict[str, Any]]:
        """As many as there is room for, in turn for each reason: by reason, the most telling one first."""
        lines = [sorted(self._lines[line], reverse=True) for line in self._order()]
        places: dict[bytes, tuple[int, int]] = {}
        for number, entries in enumerate(lines):
            for index, entry in enumerate(entries):
                places.setdefault(entry.hash, (number, index))
        taken = _as_many_as_fit(chain.from_iterable(zip_longest(*lines)))
        return [taken[name] for name in sorted(taken, key=places.__getitem__)]

    def _order(self) -> list[str]:
        kinds = sorted(self._lines.keys() - ROOM.keys())
        return [*(reason for reason in ROOM if reason in self._lines), *kinds]


def _as_many_as_fit(entries: Iterable[_Entry | None]) -> dict[bytes, dict[str, Any]]:
    """The first documents that have room together, each once, by the hashes of their ids."""
    packed, size, taken = zlib.compressobj(9), 0, dict[bytes, dict[str, Any]]()
    for entry in entries:
        if entry is None or entry.hash in taken:
            continue
        text = json.dumps(entry.document, ensure_ascii=False, separators=(",", ":")).encode()
        size += len(packed.compress(text) + packed.flush(zlib.Z_SYNC_FLUSH))
        if size > MOST_DATA:
            break
        taken[entry.hash] = entry.document
    return taken
