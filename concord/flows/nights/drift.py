"""A run against the last one that is published in its folder, before it takes that one's place.

Only files that differ are read, and of the others as many as the new documents are compared with. Under another model
all differ, though the shards are the same: of very many some are drawn, the same ones of both nights.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import compress, repeat
from pathlib import PurePosixPath
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from concord.flows.nights.record import read_record
from concord.flows.runfolder.file_difference import FileDifference, places_now, written, written_files
from concord.flows.runfolder.markers import Markers
from concord.flows.runfolder.published import NothingPublishedError, Published, PublishedError, published
from concord.flows.screen.progress import say
from concord.schemas.arrays import Ints, Mask
from concord.schemas.columns import DOC_ID, PREDICTIONS_LAYOUT
from concord.schemas.drift import Drift
from concord.schemas.run import RuleStrengths, RunKey, ShardReport
from concord.workers.drift.chart import NightScore
from concord.workers.drift.figures import DocumentFigures, DriftWatch
from concord.workers.drift.nights import Night, compare
from concord.workers.labelling.output import PREDICTIONS
from concord.workers.models.model import KnownWords, Model
from concord.workers.storage.storage import Storage
from concord.workers.storage.tables import read_unthreaded

MOST_DOCUMENTS = 200_000
"""Documents of a night that are compared; of more, some are drawn by their ids."""

MOST_SHARDS = 4_096
"""Shards with the rows that they had whose files are read; of more, some are drawn by their rows."""

REFERENCE_DOCUMENTS = 20_000
"""Documents of unchanged files that new ones are compared with."""

WATCHED_CONSTRAINTS = 50
"""Constraints whose violations are compared: those with the most."""


class AgainstLast(NamedTuple):
    """A run beside the last one: what is different, the scores of its figures, and the counts of that one."""

    drift: Drift
    chart: dict[str, NightScore]
    last: ShardReport


def against_last(
    storage: Storage, markers: Markers, key: RunKey, model: Model, rules: RuleStrengths
) -> AgainstLast | None:
    """A run whose shards are done, and that is not published yet, against what is; ``rules`` are its constraints.

    None where nothing is published yet, where predictions are the same, and where what is published is damaged, which
    is told.
    """
    try:
        return _against(published(storage.uri), markers, key, model, rules)
    except NothingPublishedError:
        return None
    except PublishedError as error:
        say(f"not compared with the last night: {error}", style="yellow")
        return None


def _against(last: Published, markers: Markers, key: RunKey, model: Model, rules: RuleStrengths) -> AgainstLast | None:
    files = FileDifference.of(last, markers)
    if files.are_the_same:
        return None
    old, gone = files.old, files.gone
    former, now, record = last.manifest.totals, markers.report(), read_record(last.storage)
    drawn = math.ceil(max(former.documents, now.documents) / MOST_DOCUMENTS) or 1
    old_stand, new_stand = _stand_for(last, markers, files)
    weights = _weights(last.manifest.rules, rules)
    watch = DriftWatch(
        model.known if isinstance(model, KnownWords) else None,
        _watched(former, now, weights),
        weights,
    )
    before = (last.table(*file, PREDICTIONS_LAYOUT) for file in compress(last.files_in(PREDICTIONS), old_stand))
    after = (_table(last.storage, path) for path, _ in compress(written(markers), new_stand))
    same = (last.table(*file, PREDICTIONS_LAYOUT) for file in _some(last.files_in(PREDICTIONS), old, ~gone))
    night = Night(
        _figures(before, old_stand, drawn, watch),
        _figures(after, new_stand, drawn, watch, compress(_corpus_files(markers), new_stand)),
        DocumentFigures.joined(DocumentFigures.of(table, watch) for table in _first(same, REFERENCE_DOCUMENTS)),
        same_run=last.manifest.run == key,
        last=former.documents,
        rejected=_rejected(markers) if now.rejected else frozenset(),
        sampled=drawn > 1 or bool(old_stand.max(initial=0) > 1),
    )
    compared = compare(night, against=record.number_published, earlier=record.charts())
    return AgainstLast(compared.drift, compared.chart, former)


def _stand_for(last: Published, markers: Markers, files: FileDifference) -> tuple[Ints, Ints]:
    """(F,) of the files of either night: for how many shards each is read; 0 for those that are not read."""
    gone, come = files.gone, files.added
    before, after = gone.astype(np.int64), come.astype(np.int64)
    if min(gone.sum(), come.sum()) <= MOST_SHARDS:
        return before, after
    now = places_now(last, markers, len(gone))
    both = np.flatnonzero(gone & (now >= 0) & come[now])
    rows = markers.shards.ids[now[both], :8].copy().view(">u8").ravel()
    every = math.ceil(len(both) / MOST_SHARDS) or 1
    before[both] = after[now[both]] = np.where(rows % every == 0, every, 0)
    return before, after


def _rejected(markers: Markers) -> frozenset[str]:
    """Ids of the rejects that have one."""
    found = (reject.doc_id for marker in markers for reject in marker.rejects)
    return frozenset(name for name in found if name is not None)


def _corpus_files(markers: Markers) -> Iterator[str]:
    """The file of the corpus that each of the `written` files answers, without its folders."""
    shards, done = markers.shards, np.flatnonzero(markers.done).tolist()
    for place, marker in zip(done, markers, strict=True):
        name = PurePosixPath(shards.files[shards.file[place]].name).name
        yield from (name for _ in written_files(marker))


def _some(files: Iterable[tuple[str, str]], digests: NDArray[np.bytes_], wanted: Mask) -> Iterator[tuple[str, str]]:
    """As many of the wanted files as there may be documents to read, in the order of digests: from anywhere."""
    places = np.flatnonzero(wanted)
    chosen = places[np.argsort(digests[places])][:REFERENCE_DOCUMENTS]
    mask = np.zeros(len(wanted), np.bool_)
    mask[chosen] = True
    return iter(sorted(compress(files, mask), key=lambda file: file[1]))


def _table(storage: Storage, path: str) -> pa.Table:
    """A table of the store, which was looked at before, or has just been written."""
    data = storage.read(path)
    assert data is not None
    return read_unthreaded(data)


def _figures(
    tables: Iterable[pa.Table], stand: Ints, drawn: int, watch: DriftWatch, files: Iterable[str] = repeat("")
) -> DocumentFigures:
    """Documents of tables that ``stand`` for so many shards of ``files``: of all documents about one in ``drawn``."""
    rates = ((int(shards), max(1, drawn // int(shards))) for shards in stand[stand > 0])
    return DocumentFigures.joined(
        DocumentFigures.of(_drawn(table, documents), watch, times=shards * documents, file=file)
        for table, (shards, documents), file in zip(tables, rates, files, strict=False)
    )


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


def _weights(before: RuleStrengths, after: RuleStrengths) -> dict[str, float | None] | None:
    """Weights in nats of this night for the constraints that both nights have in the same form; None without a change.

    None is the weight of a constraint whose penalties can be compared as they were recorded. Left out is one with
    several weights that changed, or that became hard: what the last night's labels would cost now is not known.
    """
    if before == after:
        return None
    former = {one.name: one for one in before.strengths}
    both = [one for one in after.strengths if one.name in former and former[one.name].form == one.form]
    changed = {one.name for one in both if former[one.name].weights != one.weights}
    kept = (one for one in both if one.name not in changed or _is_soft(one.weights))
    return {one.name: one.weights[0] if one.name in changed else None for one in kept}


def _is_soft(weights: tuple[float, ...]) -> bool:
    """Is it one weight, and a finite one?"""
    return len(set(weights)) == 1 and math.isfinite(weights[0])


def _watched(before: ShardReport, after: ShardReport, weights: Mapping[str, float | None] | None) -> list[str]:
    """Constraints of both nights in the same form: those with the most violations."""
    both = before.constraints.keys() & after.constraints.keys()
    both = both if weights is None else both & weights.keys()
    most = sorted(both, key=lambda name: (-before.constraints[name].degree - after.constraints[name].degree, name))
    return most[:WATCHED_CONSTRAINTS]
