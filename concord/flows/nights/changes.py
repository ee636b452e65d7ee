"""What the last runs of an output folder changed, in words, as a table of documents, and as a file."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from concord.flows.nights.record import read_record
from concord.flows.runfolder.feed import write_changes
from concord.flows.runfolder.feed_reader import changes_of, files_since
from concord.flows.runfolder.published import published
from concord.schemas.changes import (
    LISTED_DOCUMENTS,
    ChangeCause,
    ChangeCounts,
    ChangeKind,
    ChangesReport,
    DocumentChange,
    FeedRun,
    Why,
)
from concord.schemas.columns import DOC_ID
from concord.schemas.feed import CHANGE_KIND, ENTITY_SPANS, ENTITY_SPANS_BEFORE, RUN_NUMBER, WHY
from concord.workers.storage.storage import Storage


def changes(out: str, *, since: int | None = None, file: Path | None = None) -> ChangesReport:
    """What the runs after ``since`` changed in an output (default: the last one); all of it is written to ``file``.

    Raises `PublishedError` where there is no run or a file is damaged, `RunFolderError` where the feed does not reach
    back that far, and `OutputError`.
    """
    storage = published(out).storage
    files = files_since(storage, since)
    sums = _FeedSums()
    tables = sums.of(changes_of(storage, files))
    if file is not None:
        write_changes(file, tables)
    else:
        for _ in tables:
            pass
    return ChangesReport(
        out=out,
        since=files[0].run - 1 if files else since or 0,
        runs=_runs(storage, [own.run for own in files]),
        counts=ChangeCounts(**sums.counts),
        causes=dict(sums.causes),
        documents=tuple(_document(row) for row in sums.shown),
        file=None if file is None else str(file),
    )


def _runs(storage: Storage, numbers: Sequence[int]) -> tuple[FeedRun, ...]:
    """The runs with these numbers, as the folder's record has them."""
    times = {night.changes.run: night.time for night in read_record(storage).nights if night.changes is not None}
    return tuple(FeedRun(run=number, time=times.get(number)) for number in numbers)


@dataclass
class _FeedSums:
    """What goes by in tables of the feed: documents by kind, causes of answers, and the first documents by id."""

    counts: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    shown: list[Mapping[str, Any]] = field(default_factory=list)

    def of(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """The tables, which are counted as they go by."""
        for table in tables:
            self.counts.update(table[CHANGE_KIND].to_pylist())
            answers = table.filter(pc.equal(table[CHANGE_KIND], ChangeKind.ANSWER))
            self.causes.update(line for causes in answers[WHY].to_pylist() for line in _lines(causes))
            first = table.sort_by(DOC_ID).slice(0, LISTED_DOCUMENTS).to_pylist()
            self.shown = heapq.nsmallest(LISTED_DOCUMENTS, [*self.shown, *first], key=lambda row: row[DOC_ID])
            yield table


def _lines(causes: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Causes in words."""
    return tuple(ChangeCause(Why(one["cause"]), one["detail"]).line for one in causes)


def _document(row: Mapping[str, Any]) -> DocumentChange:
    before, after = _spans(row[ENTITY_SPANS_BEFORE]), _spans(row[ENTITY_SPANS])
    return DocumentChange(
        doc_id=row[DOC_ID],
        run=row[RUN_NUMBER],
        what=ChangeKind(row[CHANGE_KIND]),
        entities_before=tuple(text for place, text in before.items() if place not in after),
        entities=tuple(text for place, text in after.items() if place not in before),
        why=_lines(row[WHY]),
    )


def _spans(entities: Sequence[Mapping[str, Any]] | None) -> dict[tuple[Any, ...], str]:
    """Type and text of each entity, by that and its place."""
    spans = ((one, f"{one['type']} {one['text']}") for one in entities or ())
    return {(one["start"], one["end"], text): text for one, text in spans}
