"""The output of a run, wherever it is: what it is for, what is done, and what its readers see next."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from concord.flows.errors import RunFolderError
from concord.flows.runfolder.folder_output import FolderOutput
from concord.flows.runfolder.layout import CORPUS, SOURCES, STORE, RunOutput, SeenFile
from concord.flows.runfolder.object_output import ObjectOutput
from concord.schemas.columns import rejects_table
from concord.schemas.run import (
    SHARD_BYTES,
    FileDigest,
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
from concord.workers.labelling.output import NAME_LENGTH, REJECTS, finished, in_place
from concord.workers.storage.object_storage import ObjectStorage
from concord.workers.storage.sealed import seal, unseal
from concord.workers.storage.storage import Storage, read_if_there, storage_at

MARKERS_AT_ONCE = 32
"""Markers that are asked for at once: those of an object store take a while to come."""


def run_output(out: str) -> RunOutput:
    """The output at a path or a URI. Raises `StorageError`."""
    storage = storage_at(out)
    return ObjectOutput(storage) if isinstance(storage, ObjectStorage) else FolderOutput(Path(storage.uri))


def claim(out: RunOutput, corpus: str) -> None:
    """Says which corpus the output is for, and clears what killed processes left half written.

    Raises `RunFolderError` where it is for another corpus, and `OutputError`.
    """
    place = place_of(corpus)  # its key may be another one today, and is nobody's business
    held = _held_corpus(out.storage)
    if held not in (None, place) and out.begun():
        there = place_of(out.storage.uri)
        raise RunFolderError(f"{there} holds the predictions of {held}; give another --out, or delete that folder")
    if held != place:
        out.storage.write(CORPUS, seal({"corpus": place}))
    out.tidy()


def _held_corpus(storage: Storage) -> str | None:
    """The corpus that the output is for; None where that is not said, or damaged and so not to be believed."""
    data = read_if_there(storage, CORPUS)
    content = None if data is None else unseal(data)
    return None if content is None else str(content.get("corpus"))


class Sources(Settings):
    """What a run was made from, as it was named; digests in the manifest tell whether that is still the same."""

    corpus: str
    model: str
    constraints: tuple[str, ...]
    consistency: bool
    shard_bytes: int = SHARD_BYTES


def write_sources(storage: Storage, sources: Sources) -> None:
    """Keeps what a run was made from, for `concord verify`, without secrets. Raises `OutputError`."""
    named = sources.model_copy(update={"corpus": place_of(sources.corpus), "model": place_of(sources.model)})
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


def find_done(out: RunOutput, shards: Sequence[Shard], key: RunKey) -> dict[str, ShardMarker]:
    """The markers of the shards that need not be done again, by shard id; looks at all their files."""
    store = out.storage.below(STORE)
    # Hashing leaves Python's lock; an object store answers many requests at once.
    threads = MARKERS_AT_ONCE if isinstance(out, ObjectOutput) else os.cpu_count()
    with ThreadPoolExecutor(max_workers=threads) as pool:
        found = pool.map(lambda shard: finished(shard, key, store, holds=out.holds), shards)
        return {shard.id: marker for shard, marker in zip(shards, found, strict=True) if marker is not None}


# Publishing


def publish(
    out: RunOutput,
    key: RunKey,
    shards: Sequence[Shard],
    markers: Mapping[str, ShardMarker],
    *,
    rules: RuleStrengths = NO_RULES,
) -> None:
    """Shows the run to readers: all shards are done. Then removes what it no longer names.

    May be killed at any point: the same call again ends in the same state. Raises `OutputError`.
    """
    files = _files(shards, markers)
    manifest = seal(_manifest(key, rules, shards, markers, files))
    out.show(files, manifest, keys={markers[shard.id].key[:NAME_LENGTH] for shard in shards})


def first_reject(shards: Sequence[Shard], markers: Mapping[str, ShardMarker]) -> str | None:
    """Where the first reject of finished shards stands, in the order of the corpus, and why it is one."""
    for shard in shards:
        for reject in in_place(markers[shard.id].rejects, shard):
            return f"{reject.source}, {f'row {reject.row}' if reject.row is not None else 'a row'}: {reject.reason}"
    return None


def _files(shards: Sequence[Shard], markers: Mapping[str, ShardMarker]) -> list[SeenFile]:
    """The files of all shards; their names sort as the corpus does."""
    found = []
    for number, shard in enumerate(shards):
        marker = markers[shard.id]
        name = f"{number:08d}-{marker.key[:16]}"
        for entry in marker.files:
            stored = Path(entry.path)
            seen = f"{stored.parent.name}/{name}{stored.suffix}"
            found.append(SeenFile(entry.model_copy(update={"path": seen}), entry.path))
        if marker.rejects:
            data = table_bytes(rejects_table(in_place(marker.rejects, shard)))
            digest = hashlib.sha256(data).hexdigest()
            # Places are no part of the key, so the name is that of the bytes.
            entry = FileDigest(path=f"{REJECTS}/{number:08d}-{digest[:16]}.parquet", bytes=len(data), sha256=digest)
            found.append(SeenFile(entry, None, data))
    return found


def _manifest(
    key: RunKey,
    rules: RuleStrengths,
    shards: Sequence[Shard],
    markers: Mapping[str, ShardMarker],
    files: Sequence[SeenFile],
) -> dict[str, Any]:
    places = (ShardPlace(key=markers[s.id].key, file=s.file.name, first_row=s.first_row, rows=s.rows) for s in shards)
    manifest = RunManifest(
        dataset=dataset_digest(shards),
        run=key,
        rules=rules,
        totals=ShardReport.merge(markers[shard.id].report for shard in shards),
        files={file.entry.path: file.entry.sha256 for file in files},
        shards=tuple(places),
    )
    return manifest.model_dump(mode="json")


def dataset_digest(shards: Sequence[Shard]) -> str:
    """Hex digest of a corpus's content, whatever the order of its shards."""
    state = hashlib.sha256()
    for name in sorted(shard.id for shard in shards):
        state.update(name.encode())
    return state.hexdigest()
