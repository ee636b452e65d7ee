"""The output of a run, wherever it is: what it is for, what is done, and what its readers see next."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from concord.flows.errors import RunFolderError
from concord.flows.runfolder.folder_output import FolderOutput
from concord.flows.runfolder.layout import CORPUS, SOURCES, STORE, RunOutput, SeenFile
from concord.flows.runfolder.markers import KEPT_MARKERS, Markers, kept_bytes, kept_markers
from concord.flows.runfolder.object_output import ObjectOutput
from concord.schemas.columns import rejects_table
from concord.schemas.run import (
    SHARD_BYTES,
    FileDigest,
    ReportSum,
    RuleStrengths,
    RunKey,
    RunManifest,
    ShardMarker,
    ShardPlace,
    ShardReport,
)
from concord.schemas.secrets import place_of
from concord.schemas.settings import Settings
from concord.workers.constraints.constraint_set import NO_RULES
from concord.workers.corpus.parquet import table_bytes
from concord.workers.corpus.shards import Shard
from concord.workers.labelling.output import (
    MARKERS,
    NAME_LENGTH,
    REJECTS,
    finished,
    in_place,
    marker_name,
    shard_key,
    shard_keys,
)
from concord.workers.storage.object_storage import ObjectStorage
from concord.workers.storage.sealed import seal, unseal
from concord.workers.storage.storage import Storage, read_if_there, storage_at

MARKERS_AT_ONCE = 32
"""Markers that are asked for at once: those of an object store take a while to come."""

ASKED_AT_ONCE = 4096
"""Shards in a group: a pool of threads keeps a kilobyte of each call until it is answered."""


def run_output(out: str) -> RunOutput:
    """The output at a path or a URI. Raises `StorageError`."""
    storage = storage_at(out)
    return ObjectOutput(storage) if isinstance(storage, ObjectStorage) else FolderOutput(Path(storage.uri))


class Purpose(NamedTuple):
    """What an output is for.

    - ``corpus``: place of the corpus
    - ``only``: digest of the ids of its documents that the output is of; None for all
    """

    corpus: str
    only: str | None = None

    @classmethod
    def of(cls, corpus: str, only: Collection[str] | None = None) -> Purpose:
        """The purpose of a run."""
        place = place_of(corpus)  # its key may be another one today, and is nobody's business
        return cls(place, None if only is None else ids_digest(only))


def ids_digest(ids: Collection[str]) -> str:
    """Hex digest of document ids, in whatever order."""
    return hashlib.sha256("\0".join(sorted(set(ids))).encode()).hexdigest()


def claim(out: RunOutput, purpose: Purpose) -> None:
    """Says what the output is for, and clears what killed processes left half written.

    Raises the errors of `check_purpose`, and `OutputError`.
    """
    held = _held_purpose(out.storage)
    _check_held(out, held, purpose)
    if held != purpose:
        out.storage.write(CORPUS, seal({name: value for name, value in purpose._asdict().items() if value is not None}))
    out.tidy()


def check_purpose(out: RunOutput, purpose: Purpose) -> None:
    """Raises `RunFolderError` where the output is for another corpus, or for other documents of it."""
    _check_held(out, _held_purpose(out.storage), purpose)


def _check_held(out: RunOutput, held: Purpose | None, purpose: Purpose) -> None:
    if held is None or held == purpose or not out.begun():
        return
    there = place_of(out.storage.uri)
    other = held.corpus if held.corpus != purpose.corpus else f"other documents of {held.corpus}"
    raise RunFolderError(f"{there} holds the predictions of {other}; give another --out, or delete that folder")


def _held_purpose(storage: Storage) -> Purpose | None:
    """What the output is for; None where that is not said, or damaged and so not to be believed."""
    data = read_if_there(storage, CORPUS)
    content = None if data is None else unseal(data)
    return None if content is None else Purpose(str(content.get("corpus")), content.get("only"))


class Sources(Settings):
    """What a run was made from, as it was named; digests in the manifest tell whether that is still the same.

    - ``only``: ids of the documents that the run is of; None for all
    """

    corpus: str
    model: str
    constraints: tuple[str, ...]
    consistency: bool
    shard_bytes: int = SHARD_BYTES
    only: tuple[str, ...] | None = None


def write_sources(storage: Storage, sources: Sources) -> None:
    """Keeps what a run was made from, for `concord verify`, without secrets. Raises `OutputError`."""
    places = {"corpus": place_of(sources.corpus), "model": place_of(sources.model)}
    named = sources.model_copy(update=places | {"constraints": tuple(map(place_of, sources.constraints))})
    storage.write(SOURCES, seal(named.model_dump(mode="json")))


def read_sources(storage: Storage) -> Sources:
    """What `write_sources` kept. Raises `RunFolderError`."""
    try:
        data = storage.read(SOURCES)
        return Sources.model_validate(None if data is None else unseal(data))
    except (OSError, ValidationError):
        raise RunFolderError(
            f"{place_of(storage.uri)}: no record of what this run was made from ({SOURCES}), or a damaged one; the "
            "same `concord reprocess` again writes it, without labelling again where nothing has changed"
        ) from None


def last_shard_bytes(storage: Storage) -> int | None:
    """Size of the shards of the run in ``storage``, in bytes of text; None where there is no record of it."""
    try:
        return read_sources(storage).shard_bytes
    except RunFolderError:
        return None


def documents_of_run(storage: Storage) -> frozenset[str] | None:
    """Ids of the documents that a run was asked for; None for all of its corpus. Raises `RunFolderError`."""
    if read_if_there(storage, SOURCES) is None:
        return None
    only = read_sources(storage).only
    return None if only is None else frozenset(only)


def find_done(out: RunOutput, shards: Sequence[Shard], key: RunKey) -> Markers:
    """The markers of the shards that need not be done again; looks at all their files."""
    data = read_if_there(out.storage, KEPT_MARKERS)
    done, kept = Markers(), {} if data is None else kept_markers(data)
    for shard, name in zip(shards, shard_keys(shards, key), strict=True):
        marker = kept.get(name)
        if marker is not None and marker.stands(out):
            done.add_kept(shard.id, marker)
    rest, store = [shard for shard in shards if shard.id not in done], out.storage.below(STORE)

    def whole(shard: Shard) -> ShardMarker | None:
        marker = kept.get(shard_key(shard, key))
        if marker is not None and marker.is_held(out):
            return marker.marker
        return finished(shard, key, store, holds=out.holds)

    # Hashing leaves Python's lock; an object store answers many requests at once.
    threads = MARKERS_AT_ONCE if isinstance(out, ObjectOutput) else os.cpu_count()
    with ThreadPoolExecutor(max_workers=threads) as pool:
        for start in range(0, len(rest), ASKED_AT_ONCE):
            part = rest[start : start + ASKED_AT_ONCE]
            for shard, found in zip(part, pool.map(whole, part), strict=True):
                if found is not None:
                    done.add(shard.id, found)
    return done


# Publishing


def publish(
    out: RunOutput,
    key: RunKey,
    shards: Sequence[Shard],
    markers: Markers,
    *,
    rules: RuleStrengths = NO_RULES,
) -> ShardReport:
    """Shows the run to readers: all shards are done. Then removes what it no longer names. Returns its counts.

    May be killed at any point: the same call again ends in the same state. Raises `OutputError`.
    """
    keys = shard_keys(shards, key)
    totals = _show(out, key, rules, shards, markers, {name[:NAME_LENGTH] for name in keys})
    _keep_markers(out, dict(zip(keys, shards, strict=True)), markers)
    return totals


def first_reject(shards: Sequence[Shard], markers: Mapping[str, ShardMarker]) -> str | None:
    """Where the first reject of finished shards stands, in the order of the corpus, and why it is one."""
    for shard in shards:
        for reject in in_place(markers[shard.id].rejects, shard):
            return f"{reject.source}, {f'row {reject.row}' if reject.row is not None else 'a row'}: {reject.reason}"
    return None


def _show(
    out: RunOutput, key: RunKey, rules: RuleStrengths, shards: Sequence[Shard], markers: Markers, keys: Collection[str]
) -> ShardReport:
    files, total = list[SeenFile](), ReportSum()
    for number, (shard, marker) in enumerate(zip(shards, markers.of(shards), strict=True)):
        files += _seen_files(number, shard, marker)
        total.add(marker.report)
    totals = total.report()
    out.show(files, seal(_manifest(key, rules, shards, totals, files)), keys=keys)
    return totals


def _seen_files(number: int, shard: Shard, marker: ShardMarker) -> Iterator[SeenFile]:
    """The files of a shard, by its number in the corpus; their names sort as the corpus does."""
    name = f"{number:08d}-{marker.key[:16]}"
    for entry in marker.files:
        folder = entry.path.partition("/")[0]
        yield SeenFile(replace(entry, path=f"{folder}/{name}.parquet"), entry.path)
    if marker.rejects:
        data = table_bytes(rejects_table(in_place(marker.rejects, shard)))
        digest = hashlib.sha256(data).hexdigest()
        # Places are no part of the key, so the name is that of the bytes.
        entry = FileDigest(path=f"{REJECTS}/{number:08d}-{digest[:16]}.parquet", bytes=len(data), sha256=digest)
        yield SeenFile(entry, None, data)


def _keep_markers(out: RunOutput, shards: Mapping[str, Shard], markers: Markers) -> None:
    """Keeps the markers of shards by their keys in one file, now that no link to their files changes any more."""
    data = kept_bytes(markers, shards, out)
    if read_if_there(out.storage, KEPT_MARKERS) != data:
        out.storage.write(KEPT_MARKERS, data)
    names = {marker_name(key) for key in shards}
    out.storage.remove(
        [f"{STORE}/{MARKERS}/{name}" for name in out.storage.listed(f"{STORE}/{MARKERS}") if name in names]
    )


def _manifest(
    key: RunKey, rules: RuleStrengths, shards: Sequence[Shard], totals: ShardReport, files: Sequence[SeenFile]
) -> dict[str, Any]:
    manifest = RunManifest(
        dataset=dataset_digest(shards),
        run=key,
        rules=rules,
        totals=totals,
        files={file.entry.path: file.entry.sha256 for file in files},
        shards=shard_places(shards, key),
    )
    return manifest.model_dump(mode="json")


def shard_places(shards: Sequence[Shard], key: RunKey) -> tuple[ShardPlace, ...]:
    """What a manifest says of shards."""
    keyed = zip(shard_keys(shards, key), shards, strict=True)
    return tuple(ShardPlace(name, shard.file.name, shard.first_row, shard.rows) for name, shard in keyed)


def dataset_digest(shards: Sequence[Shard]) -> str:
    """Hex digest of a corpus's content, whatever the order of its shards."""
    state = hashlib.sha256()
    for name in sorted(shard.id for shard in shards):
        state.update(name.encode())
    return state.hexdigest()
