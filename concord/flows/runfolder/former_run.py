"""The run before the published one, for `concord rollback`: what publishing would have removed of it.

`FORMER` in an output has, under names that begin with a key of a manifest (`layout.staged_prefix`):

- `RUNS`: of the published run and of the one before it the shards with their markers, and what the run was made from
- `RUN_BEFORE`: by the key of a published run, the manifest of the run before it
- the folders of `layout.FOLDERS`: by the same key, files of the run before whose shards the published one has not
- `INSTEAD`: by the key of a run that a rollback has published, the manifest of the run whose place it took

All of it is written before a manifest takes effect, and belongs to that manifest. So whenever a run is killed, what
readers have and what is kept of the run before fit together. Without the folder there is no way back, and nothing else
is lost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pydantic import ValidationError

from concord.flows.errors import RunFolderError
from concord.flows.runfolder.layout import FOLDERS, MANIFEST, SOURCES, STORE, RunOutput, staged_prefix, times_of
from concord.flows.runfolder.marked_shards import marked_shards, read_markers, schema
from concord.flows.runfolder.markers import Markers
from concord.flows.runfolder.publication import RunPublication
from concord.flows.runfolder.published import Published, PublishedError, published
from concord.flows.runfolder.storage_queries import ask_all
from concord.schemas.run import FileDigest, RuleStrengths, RunManifest
from concord.workers.labelling.output import NAME_LENGTH, PREDICTIONS, REJECTS, TIMES
from concord.workers.storage.sealed import unseal
from concord.workers.storage.storage import Storage, read_if_there
from concord.workers.storage.tables import is_as_written, table_like

FORMER = ".former"
RUNS, RUN_BEFORE, INSTEAD = "runs", "before", "instead"


class FormerRun(NamedTuple):
    """The run before the published one.

    - ``run``, ``markers``: what readers see of it, and the markers of all its shards
    - ``rules``: its constraints
    - ``sources``: what it was made from, as `runfolder.write_sources` keeps it; None where that is not known
    """

    run: RunPublication
    markers: Markers
    rules: RuleStrengths
    sources: bytes | None


def stage_former(out: RunOutput, run: RunPublication, markers: Markers) -> None:
    """Keeps what is needed to publish a run again, and the published run, whose place it is to take.

    Raises `OutputError`.
    """
    before = _stage(out, run, markers)
    if before is None:
        return
    with suppress(PublishedError):  # a run with files missing is none to go back to
        _copy_files(out, run)
        out.storage.write(_path(RUN_BEFORE, run.manifest, MANIFEST), before)


def stage_rollback(out: RunOutput, run: RunPublication, markers: Markers) -> None:
    """Keeps what is needed to publish a former run again, and that it takes the place of the published one."""
    before = _stage(out, run, markers)
    if before is not None:
        out.storage.write(_path(INSTEAD, run.manifest, MANIFEST), before)


def _stage(out: RunOutput, run: RunPublication, markers: Markers) -> bytes | None:
    """Keeps a run; the manifest of the published one, None where it is the same or there is none."""
    storage, key = out.storage, staged_prefix(run.manifest)
    before = read_if_there(storage, MANIFEST)
    if before != run.manifest:
        _remove(storage, lambda folder, name: folder != RUNS and name.startswith(key))  # of an earlier try
    elif any(name.startswith(key) for name in storage.names(f"{FORMER}/{RUNS}")):
        return None
    for number, data in enumerate(marked_shards(markers)):
        storage.write(_path(RUNS, run.manifest, f"{number:08d}.parquet"), data)
    sources = read_if_there(storage, SOURCES)
    if sources is not None:
        storage.write(_path(RUNS, run.manifest, SOURCES), sources)
    return None if before == run.manifest else before


def _copy_files(out: RunOutput, run: RunPublication) -> None:
    """Links (or copies) the files that the next run will not contain, so that they survive its publication."""
    storage = out.storage
    last = published(storage.uri)
    there = {folder: set(storage.names(folder)) for folder in FOLDERS}
    gone = (shard for shard in last.shards() if not run.keeps(shard.place.key[:NAME_LENGTH]))
    # Rejects are in the markers.
    paths = (path for shard in gone for path in shard.files if not path.startswith(f"{REJECTS}/"))

    def copy(path: str) -> None:
        folder, _, name = path.partition("/")
        if name not in there[folder]:
            raise PublishedError(f"{last.uri}: {path} is missing")
        out.copy(path, _path_of(path, run.manifest))
        if folder == PREDICTIONS and name in there[TIMES]:
            out.copy(times_of(path), _path_of(times_of(path), run.manifest))

    for _ in ask_all(storage, copy, paths):
        pass


def clear_former(out: RunOutput) -> None:
    """Removes what is of neither the published run nor the one before it. Raises `OutputError`."""
    manifest = read_if_there(out.storage, MANIFEST)
    if manifest is None:
        return
    own, before = staged_prefix(manifest), read_if_there(out.storage, _path(RUN_BEFORE, manifest, MANIFEST))
    both = (own,) if before is None else (own, staged_prefix(before))
    _remove(out.storage, lambda folder, name: not name.startswith(both if folder == RUNS else own))


def former_sources(storage: Storage) -> bytes | None:
    """What the run before the published one was made from; None where that is not kept."""
    manifest = read_if_there(storage, MANIFEST)
    before = None if manifest is None else read_if_there(storage, _path(RUN_BEFORE, manifest, MANIFEST))
    return None if before is None else read_if_there(storage, _path(RUNS, before, SOURCES))


def former_run(out: RunOutput) -> FormerRun:
    """The run before the published one; that one itself where it is back by a rollback, which is then finished.

    Raises `RunFolderError` where it was not kept, or not whole, and the errors of `published`.
    """
    storage = out.storage
    published(storage.uri)
    manifest = storage.read(MANIFEST)
    assert manifest is not None  # that was just checked
    is_back = taken_back(storage) is not None
    data = manifest if is_back else read_if_there(storage, _path(RUN_BEFORE, manifest, MANIFEST))
    if data is None:
        raise RunFolderError(
            f"{storage.uri}: no run before the published one is kept there; each `concord reprocess` that publishes "
            "other files keeps the one before it"
        )
    return _kept_run(storage, data, _path(RUN_BEFORE, manifest, MANIFEST))


def _kept_run(storage: Storage, data: bytes, path: str) -> FormerRun:
    """What is kept of the run with a manifest, which is at a path. Raises `RunFolderError` where that is damaged."""
    try:
        former = RunManifest.model_validate(unseal(data))
    except ValidationError:
        raise _damaged(storage, path) from None
    markers = read_markers(partial(_tables, storage, data), former.run)
    run = RunPublication(markers, former.rules, former.dataset)
    if run.manifest != data:
        raise _damaged(storage, f"{FORMER}/{RUNS}/{staged_prefix(data)}*.parquet")
    return FormerRun(run, markers, former.rules, read_if_there(storage, _path(RUNS, data, SOURCES)))


def taken_back(storage: Storage) -> bytes | None:
    """The manifest of the run in whose place a rollback has published the run that readers have; None without one."""
    manifest = read_if_there(storage, MANIFEST)
    return None if manifest is None else read_if_there(storage, _path(INSTEAD, manifest, MANIFEST))


def _tables(storage: Storage, manifest: bytes) -> Iterator[pa.Table]:
    folder, key = f"{FORMER}/{RUNS}", staged_prefix(manifest)
    for name in sorted(name for name in storage.names(folder) if name.startswith(key) and name.endswith(".parquet")):
        data = read_if_there(storage, f"{folder}/{name}")
        table = None if data is None else table_like(data, schema())
        if table is None:
            raise _damaged(storage, f"{folder}/{name}")
        yield table


def bring_back(out: RunOutput, run: RunPublication) -> None:
    """Puts the files of the former run back into the store, where they are those of finished shards.

    Raises `RunFolderError` where one is missing or damaged.
    """
    storage = out.storage
    manifest = storage.read(MANIFEST)
    assert manifest is not None
    times = set(storage.names(f"{FORMER}/{TIMES}"))

    def bring(file: tuple[str, FileDigest]) -> None:
        path, entry = file
        if out.holds(replace(entry, path=path)):
            return
        source = _path_of(entry.path, manifest)
        if not _is_whole(storage, source, entry):
            raise _damaged(storage, source)
        out.copy(source, f"{STORE}/{path}")
        source = _path_of(times_of(entry.path), manifest)
        if path.startswith(f"{PREDICTIONS}/") and Path(source).name in times:
            out.copy(source, f"{STORE}/{times_of(path)}")

    for _ in ask_all(storage, bring, ((file.stored, file.entry) for file in run.files() if file.stored is not None)):
        pass


def _is_whole(storage: Storage, path: str, entry: FileDigest) -> bool:
    data = read_if_there(storage, path)
    return data is not None and hashlib.sha256(data).hexdigest() == entry.sha256


def _damaged(storage: Storage, path: str) -> RunFolderError:
    return RunFolderError(
        f"{storage.uri}: the run before the published one was not kept whole: {path} is missing or damaged; to have "
        "its answers again, label with what it was made from: the same `concord reprocess` as then"
    )


def former_faults(out: RunOutput, last: Published) -> Iterator[tuple[str, str]]:
    """What is damaged or missing of what is kept of the published run and of the one before it: path and reason.

    That none is kept is no fault. Raises the errors of `Published.shards`.
    """
    storage = out.storage
    manifest = storage.read(MANIFEST)
    assert manifest is not None  # it has just been read
    path, instead = (_path(folder, manifest, MANIFEST) for folder in (RUN_BEFORE, INSTEAD))
    before, replaced = read_if_there(storage, path), read_if_there(storage, instead)
    if replaced is not None and unseal(replaced) is None:
        yield instead, "is damaged"
    names = list(storage.names(f"{FORMER}/{RUNS}"))
    if any(name.startswith(staged_prefix(manifest)) for name in names):
        yield from _kept_faults(storage, manifest, MANIFEST)
    if before is None:
        return
    faults = list(_kept_faults(storage, before, path))
    yield from faults or _lost_files(storage, last, _kept_run(storage, before, path).run, manifest)


def _kept_faults(storage: Storage, manifest: bytes, path: str) -> Iterator[tuple[str, str]]:
    """Faults of what is kept of the run with a manifest, which is at a path."""
    sources = read_if_there(storage, _path(RUNS, manifest, SOURCES))
    if (sources is None and read_if_there(storage, SOURCES) is not None) or (sources and unseal(sources) is None):
        yield _path(RUNS, manifest, SOURCES), "is missing or damaged"
    try:
        markers = _kept_run(storage, manifest, path).markers
    except RunFolderError as error:
        yield FORMER, str(error)
        return
    for number, expected in enumerate(marked_shards(markers)):
        name = _path(RUNS, manifest, f"{number:08d}.parquet")
        if not is_as_written(read_if_there(storage, name), expected):
            yield name, "is damaged"


def _lost_files(storage: Storage, last: Published, run: RunPublication, manifest: bytes) -> Iterator[tuple[str, str]]:
    """Files of the run before that the published one has not, and that were not kept whole."""
    shown = {shard.place.key[:NAME_LENGTH] for shard in last.shards()}
    files = (file for file in run.files() if file.stored is not None and Path(file.stored).stem not in shown)
    for file in files:
        path = _path_of(file.entry.path, manifest)
        if not _is_whole(storage, path, file.entry):
            yield path, "is missing or damaged, so that `concord rollback` has no way back"


def _path(folder: str, manifest: bytes, name: str) -> str:
    """Where a file belongs that is kept for a manifest."""
    return f"{FORMER}/{folder}/{staged_prefix(manifest)}{name.removeprefix('.')}"


def _path_of(path: str, manifest: bytes) -> str:
    """Where a file that readers see is kept for a manifest."""
    folder, _, name = path.partition("/")
    return _path(folder, manifest, name)


def _remove(storage: Storage, is_gone: Callable[[str, str], bool]) -> None:
    """Removes what is gone, by folder and name."""
    folders = (RUN_BEFORE, INSTEAD, RUNS, *FOLDERS)
    there = [(folder, name) for folder in folders for name in storage.names(f"{FORMER}/{folder}")]
    gone = [f"{FORMER}/{folder}/{name}" for folder, name in there if is_gone(folder, name)]
    if gone:
        storage.remove(gone)
