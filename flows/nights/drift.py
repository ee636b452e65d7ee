"""A run against the last one that is published in its folder, before it takes that one's place.

Only files that differ are read, and of the others as many as the new documents are compared with.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from concord.flows.nights.record import read_record
from concord.flows.progress import say
from concord.flows.runfolder.layout import STORE
from concord.flows.runfolder.published import NothingPublishedError, Published, PublishedError, published
from concord.schemas.columns import DOC_ID, PREDICTIONS_LAYOUT
from concord.schemas.run import Drift, ReportSum, RunKey, ShardMarker, ShardReport
from concord.workers.drift.chart import NightScore
from concord.workers.drift.figures import DocumentFigures, DriftWatch
from concord.workers.drift.nights import Night, compare
from concord.workers.labelling.output import PREDICTIONS
from concord.workers.models.model import KnownWords, Model
from concord.workers.storage.storage import Storage
from concord.workers.storage.tables import read_unthreaded

MOST_DOCUMENTS = 200_000
"""Documents of a night that are compared; of more, some are drawn by their ids."""

REFERENCE_DOCUMENTS = 20_000
"""Documents of unchanged files that new ones are compared with."""

WATCHED_CONSTRAINTS = 50
"""Constraints whose violations are compared: those with the most."""


class AgainstLast(NamedTuple):
    """A run beside the last one: what is different, the scores of its figures, and the counts of that one."""

    drift: Drift
    chart: dict[str, NightScore]
    last: ShardReport


def against_last(storage: Storage, markers: Iterable[ShardMarker], key: RunKey, model: Model) -> AgainstLast | None:
    """A run whose shards are done, with those markers, and that is not published yet, against what is.

    None where nothing is published yet, where predictions are the same, and where what is published is damaged, which
    is told.
    """
    try:
        return _against(published(storage.uri), markers, key, model)
    except NothingPublishedError:
        return None
    except PublishedError as error:
        say(f"not compared with the last night: {error}", style="yellow")
        return None


def _against(last: Published, markers: Iterable[ShardMarker], key: RunKey, model: Model) -> AgainstLast | None:
    old = {digest: path for path, digest in last.manifest.files.items() if path.startswith(f"{PREDICTIONS}/")}
    new, total = dict[str, str](), ReportSum()
    for marker in markers:
        new |= {file.sha256: f"{STORE}/{file.path}" for file in marker.files if file.path.startswith(f"{PREDICTIONS}/")}
        total.add(marker.report)
    if old.keys() == new.keys():
        return None
    former, now, record = last.manifest.totals, total.report(), read_record(last.storage)
    drawn = math.ceil(max(former.documents, now.documents) / MOST_DOCUMENTS) or 1
    watch = DriftWatch(
        model.known if isinstance(model, KnownWords) else None,
        _watched(former, now),
    )
    before = (last.table(path, PREDICTIONS_LAYOUT) for digest, path in sorted(old.items()) if digest not in new)
    after = (_table(last.storage, path) for digest, path in sorted(new.items()) if digest not in old)
    same = (last.table(path, PREDICTIONS_LAYOUT) for digest, path in sorted(old.items()) if digest in new)
    night = Night(
        _figures(before, watch, drawn),
        _figures(after, watch, drawn),
        _figures(_first(same, REFERENCE_DOCUMENTS), watch),
        same_run=last.manifest.run == key,
        drawn=drawn,
    )
    compared = compare(night, against=record.last, earlier=record.charts())
    return AgainstLast(compared.drift, compared.chart, former)


def _table(storage: Storage, path: str) -> pa.Table:
    """A table of the store, which was looked at before, or has just been written."""
    data = storage.read(path)
    assert data is not None
    return read_unthreaded(data)


def _figures(tables: Iterable[pa.Table], watch: DriftWatch, drawn: int = 1) -> DocumentFigures:
    return DocumentFigures.joined(DocumentFigures.of(_drawn(table, drawn), watch) for table in tables)


def _drawn(table: pa.Table, drawn: int) -> pa.Table:
    """One document of so many, by its id: the same in every night."""
    if drawn == 1:
        return table
    return table.filter(np.array([zlib.crc32(name.encode()) % drawn == 0 for name in table[DOC_ID].to_pylist()]))


def _first(tables: Iterable[pa.Table], documents: int) -> Iterator[pa.Table]:
    """Tables until they have so many documents."""
    there = 0
    for table in tables:
        if there >= documents:
            return
        there += len(table)
        yield table


def _watched(before: ShardReport, after: ShardReport) -> list[str]:
    """Constraints of both nights: those with the most violations."""
    both = before.constraints.keys() & after.constraints.keys()
    most = sorted(both, key=lambda name: (-before.constraints[name].degree - after.constraints[name].degree, name))
    return most[:WATCHED_CONSTRAINTS]
