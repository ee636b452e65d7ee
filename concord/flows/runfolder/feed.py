"""The feed of changes, ``changes/``: a file for each run that changed a text or an answer, by the run's number.

A run is compared with the published one before it takes that one's place, shard by shard: files that both have are not
read, shards with the same rows are compared with each other, and documents of all others are put aside by id. The file
is staged in `STAGED` under a name that begins with the digest of the manifest to come. Then the manifest is published:
in a folder the file is shown by the same step; in an object store it is copied to its place right after it, and if a
run is killed in between, the next one does so first. So there is never a file of a run that was not published.

Numbers count runs that changed something. They, and all bytes of the feed, follow from what was published in the folder
one after the other, and from nothing else: neither from the time nor from runs that failed.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import compress, islice
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from concord.flows.runfolder.feed_reader import feed_files
from concord.flows.runfolder.file_difference import FileDifference, places_now, written, written_files
from concord.flows.runfolder.layout import FEED_FOLDER, MANIFEST, STAGED, RunOutput, staged_prefix
from concord.flows.runfolder.markers import Markers
from concord.flows.runfolder.published import NothingPublishedError, Published, PublishedError, published
from concord.flows.screen.progress import say
from concord.schemas.arrays import Ints, Mask
from concord.schemas.changes import AddedChanges, ChangeCounts
from concord.schemas.columns import PREDICTIONS_LAYOUT, SchemaError
from concord.schemas.feed import CHANGE_KIND, CHANGES_SCHEMA
from concord.schemas.run import RuleStrengths, ShardMarker
from concord.workers.corpus.parquet import WRITE_OPTIONS
from concord.workers.drift.changes import COMPARED_COLUMNS, READ_COLUMNS, TwoRuns, answers, changes
from concord.workers.drift.parts_by_id import PartsById, part_count
from concord.workers.labelling.output import PREDICTIONS
from concord.workers.storage.files import whole_file
from concord.workers.storage.scratch import scratch_folder
from concord.workers.storage.storage import Storage, read_if_there
from concord.workers.storage.tables import unthreaded_file

T = TypeVar("T")

FILES_AT_ONCE = 16
"""Files that are read at once."""

BYTES_AT_ONCE = 32 << 20
"""Bytes of rows that are written together."""


def stage_changes(out: RunOutput, manifest: bytes, markers: Markers, rules: RuleStrengths) -> AddedChanges | None:
    """Stages the feed's file of a run whose shards are done, and that is to be published with a manifest.

    None where that one is published, or nothing changed. Raises `OutputError`.
    """
    storage = out.storage
    if read_if_there(storage, MANIFEST) == manifest:
        return None
    with scratch_folder() as folder:
        path = folder / "changes.parquet"
        runs, counts = _write(path, storage, markers, rules, folder)
        if not counts.documents:
            return None
        data = path.read_bytes()
    name = f"{runs.run:08d}-{hashlib.sha256(data).hexdigest()[:16]}.parquet"
    storage.write(f"{STAGED}/{staged_prefix(manifest)}{name}", data)
    return AddedChanges(run=runs.run, since=runs.since, counts=counts)


def finish_changes(out: RunOutput) -> None:
    """Gives the staged file of the published run its place in the feed, if it has none yet. Raises `OutputError`."""
    manifest = read_if_there(out.storage, MANIFEST)
    if manifest is None:
        return
    prefix = staged_prefix(manifest)
    staged = sorted(name for name in out.storage.names(STAGED) if name.startswith(prefix))
    for name in staged:
        out.copy(f"{STAGED}/{name}", f"{FEED_FOLDER}/{name.removeprefix(prefix)}")
    out.storage.remove([f"{STAGED}/{name}" for name in staged])


def _write(
    path: Path, storage: Storage, markers: Markers, rules: RuleStrengths, folder: Path
) -> tuple[TwoRuns, ChangeCounts]:
    """Writes what a run changes to a file here."""
    numbers = [file.run for file in feed_files(storage)]
    now = (markers.key, rules)
    try:
        last = published(storage.uri)
        since = max(numbers, default=1)  # what was published before there was a feed counts as one run
        runs = TwoRuns.of(since + 1, since, (last.manifest.run, last.manifest.rules), now)
        return runs, write_changes(path, _compared(last, markers, runs, folder))
    except NothingPublishedError:
        elsewhere = dict[str, str]()
    except (PublishedError, SchemaError) as error:
        say(f"the feed of changes begins anew, with all documents: {error}", style="yellow")
        elsewhere = _published_files(storage)
    runs = TwoRuns(max(numbers, default=0) + 1, 0, markers.key.model)
    return runs, write_changes(path, _all_new(storage, markers, runs, elsewhere))


def write_changes(path: Path, tables: Iterable[pa.Table]) -> ChangeCounts:
    """Writes rows of the feed to a file here; how many there are of each kind. Raises `OutputError`."""
    counts, waiting = Counter[str](), [CHANGES_SCHEMA.empty_table()]
    with whole_file(path) as file, pq.ParquetWriter(file, CHANGES_SCHEMA, **WRITE_OPTIONS) as writer:
        for table in tables:
            counts.update(table[CHANGE_KIND].to_pylist())
            waiting.append(table)
            if sum(part.nbytes for part in waiting) >= BYTES_AT_ONCE:
                writer.write_table(pa.concat_tables(waiting).combine_chunks())
                waiting.clear()
        if waiting:
            writer.write_table(pa.concat_tables(waiting).combine_chunks())
    return ChangeCounts(**counts)


def _all_new(storage: Storage, markers: Markers, runs: TwoRuns, elsewhere: Mapping[str, str]) -> Iterator[pa.Table]:
    """All documents of a run, file by file; ``elsewhere``: paths of files that the store may not have, by SHA-256."""

    def new(file: tuple[str, str]) -> pa.Table:
        path, digest = file
        data = read_if_there(storage, path) or storage.read(elsewhere.get(digest, path))
        return changes(COMPARED_COLUMNS.empty_table(), _answers(data), runs, rejects={}, corrected=frozenset())

    return _several(new, written(markers))


def _compared(last: Published, markers: Markers, runs: TwoRuns, folder: Path) -> Iterator[pa.Table]:
    """What differs between the published run and one whose shards are done."""
    files = FileDifference.of(last, markers)
    if files.are_the_same:
        return
    now = places_now(last, markers, len(files.gone))
    paired = files.gone & (now >= 0)
    old_alone, new_alone = files.gone & ~paired, files.added.copy()
    new_alone[now[paired]] = False
    storage = last.storage

    def old(file: tuple[str, str]) -> pa.Table:
        return answers(last.table(*file, PREDICTIONS_LAYOUT, READ_COLUMNS))

    def pair(both: tuple[tuple[str, str], _NewShard]) -> pa.Table:
        file, shard = both
        return changes(old(file), shard.answers(storage), runs, rejects=shard.reasons, corrected=shard.corrected)

    pairs = zip(compress(last.files_in(PREDICTIONS), paired), _new_shards(markers, now[paired]), strict=True)
    yield from _several(pair, pairs)
    count = _part_count(last, markers, old_alone, new_alone)
    before, after = (_parts(folder / name, count) for name in ("before", "after"))
    for table in _several(old, compress(last.files_in(PREDICTIONS), old_alone)):
        before.add(table)
    for table in _several(lambda shard: shard.answers(storage), _new_shards(markers, np.flatnonzero(new_alone))):
        after.add(table)
    rejects, corrected = dict[str, str](), set[str]()
    for shard in _new_shards(markers, np.flatnonzero(new_alone)):
        rejects |= shard.reasons
        corrected |= shard.corrected
    for one, other in zip(before, after, strict=True):
        yield changes(one, other, runs, rejects=rejects, corrected=frozenset(corrected))


class _NewShard(NamedTuple):
    """A shard that is done: its marker, and the ids of its documents that have corrections."""

    marker: ShardMarker
    corrected: frozenset[str]

    @property
    def reasons(self) -> dict[str, str]:
        """Reasons of the rejects that have an id."""
        return {reject.doc_id: reject.reason for reject in self.marker.rejects if reject.doc_id is not None}

    def answers(self, storage: Storage) -> pa.Table:
        """Its documents."""
        tables = (_answers(storage.read(path)) for path, _ in written_files(self.marker))
        return pa.concat_tables([COMPARED_COLUMNS.empty_table(), *tables])


def _new_shards(markers: Markers, places: Ints) -> Iterator[_NewShard]:
    for place in places.tolist():
        corrections = markers.shards.corrections.get(place, ())
        yield _NewShard(markers[place], frozenset(doc_id for doc_id, _ in corrections))


def _several(work: Callable[[T], pa.Table], about: Iterable[T]) -> Iterator[pa.Table]:
    """The tables of each, in their order; several threads read at once, as a store takes a while to answer."""
    rest = iter(about)
    with ThreadPoolExecutor(max_workers=FILES_AT_ONCE) as pool:
        while part := list(islice(rest, FILES_AT_ONCE)):
            yield from pool.map(work, part)


def _parts(folder: Path, count: int) -> PartsById:
    folder.mkdir()
    return PartsById(folder, COMPARED_COLUMNS, count)


def _part_count(last: Published, markers: Markers, gone: Mask, come: Mask) -> int:
    """Parts for the documents of files that are not compared with one file, of either run."""
    totals = (last.manifest.totals.documents, int(markers.shards.rows.sum()))
    return max(part_count(int(total * own.mean())) for total, own in zip(totals, (gone, come), strict=True) if len(own))


def _answers(data: bytes | None) -> pa.Table:
    assert data is not None  # it was looked at before, or has just been written
    file = unthreaded_file(data)
    there = [name for name in READ_COLUMNS if name in file.schema_arrow.names]
    return answers(file.read(columns=there, use_threads=False))


def _published_files(storage: Storage) -> dict[str, str]:
    """Paths of published files of predictions by SHA-256, as far as their lists can be read."""
    with suppress(PublishedError):
        run = published(storage.uri)
        return {digest: path for path, digest in run.files_in(PREDICTIONS)}
    return {}
