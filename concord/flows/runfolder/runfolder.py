"""The output of a run, wherever it is: what it is for, what is done, and what its readers see next."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import ValidationError

from concord.flows.errors import RunFolderError
from concord.flows.runfolder.feed import finish_changes, stage_changes
from concord.flows.runfolder.folder_output import FolderOutput
from concord.flows.runfolder.former_run import FormerRun, bring_back, clear_former, stage_former, stage_rollback
from concord.flows.runfolder.layout import CORPUS, SOURCES, STORE, RunOutput
from concord.flows.runfolder.markers import Markers, keep_markers, kept_markers
from concord.flows.runfolder.object_output import ObjectOutput
from concord.flows.runfolder.publication import RunPublication
from concord.flows.runfolder.storage_queries import ask_all
from concord.schemas.changes import AddedChanges
from concord.schemas.columns import Reject
from concord.schemas.run import SHARD_BYTES, RuleStrengths, RunKey, ShardReport
from concord.schemas.secrets import place_of
from concord.schemas.settings import Settings
from concord.workers.constraints.constraint_set import NO_RULES
from concord.workers.corpus.shard_table import ShardTable
from concord.workers.labelling.output import MARKERS, finished, in_place
from concord.workers.storage.object_storage import ObjectStorage
from concord.workers.storage.sealed import seal, unseal
from concord.workers.storage.storage import Storage, read_if_there, storage_at

SHARDS_AT_ONCE = 4096
"""Shards whose ids are hashed, and markers that are removed, at once."""


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


def is_for(out: RunOutput, purpose: Purpose) -> bool:
    """Does the output say that this is its purpose?"""
    return _held_purpose(out.storage) == purpose


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
    - ``corrections``: the file of corrections; None for none
    """

    corpus: str
    model: str
    constraints: tuple[str, ...]
    consistency: bool
    shard_bytes: int = SHARD_BYTES
    only: tuple[str, ...] | None = None
    corrections: str | None = None


def write_sources(storage: Storage, sources: Sources) -> None:
    """Keeps what a run was made from, for `concord verify`, without secrets. Raises `OutputError`."""
    corrections = sources.corrections
    places = {
        "corpus": place_of(sources.corpus),
        "model": place_of(sources.model),
        "constraints": tuple(map(place_of, sources.constraints)),
        "corrections": None if corrections is None else place_of(corrections),
    }
    named = sources.model_copy(update=places)
    storage.write(SOURCES, seal(named.model_dump(mode="json", exclude=None if corrections else {"corrections"})))


def read_sources(storage: Storage) -> Sources:
    """What `write_sources` kept. Raises `RunFolderError`."""
    sources = sources_in(read_if_there(storage, SOURCES))
    if sources is None:
        raise RunFolderError(
            f"{place_of(storage.uri)}: no record of what this run was made from ({SOURCES}), or a damaged one; the "
            "same `concord reprocess` again writes it, without labelling again where nothing has changed"
        )
    return sources


def sources_in(data: bytes | None) -> Sources | None:
    """What a run was made from, by the bytes that `write_sources` kept; None where there are none, or damaged ones."""
    try:
        return Sources.model_validate(None if data is None else unseal(data))
    except ValidationError:
        return None


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


def find_done(out: RunOutput, shards: ShardTable, key: RunKey) -> Markers:
    """The markers of the shards that need not be done again; looks at all their files."""
    done = Markers(shards, key)
    for rows in kept_markers(out.storage):
        wanted = [row for row in rows if done.keys.places(row.key)]
        doubted = [row for row in wanted if not row.stands(out)]
        held = {row.key for row, is_held in ask_all(out.storage, lambda row: row.is_held(out), doubted) if is_held}
        gone = {row.key for row in doubted} - held
        for row in wanted:
            if row.key not in gone:
                done.add_packed(row.key, row.packed)
    store = out.storage.below(STORE)
    written = (done.keys.first(name.removesuffix(".json")) for name in store.names(MARKERS))
    waiting = (done.keys[place] for place in written if place is not None and not done.has(place))
    for _, marker in ask_all(out.storage, lambda name: finished(name, store, holds=out.holds), waiting):
        if marker is not None:
            done.add(marker)
    return done


# Publishing


class PublishedRun(NamedTuple):
    """A run that readers can see from now on.

    - ``report``: its counts
    - ``changes``: what it adds to the feed of changes; None where nothing changed
    """

    report: ShardReport
    changes: AddedChanges | None = None


def publish(out: RunOutput, markers: Markers, *, rules: RuleStrengths = NO_RULES) -> PublishedRun:
    """Publishes a finished run and what it changes. Then deletes files that the new manifest does not list.

    May be killed at any point: the same call again ends in the same state. Raises `OutputError`.
    """
    return _publish(out, RunPublication(markers, rules, dataset_digest(markers.shards)), markers, rules, stage_former)


def republish(out: RunOutput, former: FormerRun) -> PublishedRun:
    """Shows the run before the published one to readers again, in that one's place, which is not kept.

    May be killed at any point: the same call again ends in the same state, or the run is the published one. Raises
    `RunFolderError` where a file of it is missing or damaged, and `OutputError`.
    """
    bring_back(out, former.run)
    if former.sources is not None:
        out.storage.write(SOURCES, former.sources)
    return _publish(out, former.run, former.markers, former.rules, stage_rollback)


def _publish(
    out: RunOutput,
    run: RunPublication,
    markers: Markers,
    rules: RuleStrengths,
    stage: Callable[[RunOutput, RunPublication, Markers], None],
) -> PublishedRun:
    finish_changes(out)
    changes = stage_changes(out, run.manifest, markers, rules)
    stage(out, run, markers)
    out.show(run)
    finish_changes(out)
    clear_former(out)
    # Now no link to their files changes any more.
    keep_markers(out.storage, markers, out)
    names = (name for name in out.storage.names(f"{STORE}/{MARKERS}") if run.keeps(name.removesuffix(".json")))
    while part := [f"{STORE}/{MARKERS}/{name}" for name in islice(names, SHARDS_AT_ONCE)]:
        out.storage.remove(part)
    return PublishedRun(run.totals, changes)


def listed_rejects(markers: Markers) -> Iterator[Reject]:
    """The rejects of finished shards, in the order of the corpus."""
    for place, marker in zip(np.flatnonzero(markers.done).tolist(), markers, strict=True):
        yield from in_place(marker.rejects, markers.shards[place])


def dataset_digest(shards: ShardTable) -> str:
    """Hex digest of a corpus's content, whatever the order of its shards."""
    first, last = shards.ids.view(">u8").T
    state, order = hashlib.sha256(), np.lexsort((last, first))
    for start in range(0, len(order), SHARDS_AT_ONCE):
        state.update(shards.ids[order[start : start + SHARDS_AT_ONCE]].tobytes().hex().encode())
    return state.hexdigest()
