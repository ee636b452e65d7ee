"""A run's output below a prefix of an object store, which has neither links nor renames.

Every file that readers see is an object of its own: copied inside the store from the shard's, which then goes. What
makes a run the current one is its manifest, written last and only over the manifest that was there when the run began;
so of two runs at once the first to end is published, and the other one is told so. Readers go by the manifest. Those
who list a folder instead may meet files of two runs while one is published, and after a kill at that moment, until the
same command has run again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from itertools import chain, islice

from pydantic import ValidationError

from concord.flows.runfolder.layout import (
    FEED_FOLDER,
    FILE_NAME,
    FOLDERS,
    MANIFEST,
    STAGED,
    STORE,
    Publication,
    PublishedFile,
    staged_prefix,
    times_of,
)
from concord.flows.runfolder.lists import ListedShard, read_list
from concord.schemas.folders import FolderKind
from concord.schemas.run import FileDigest, RunManifest
from concord.workers.labelling.output import MARKERS, NAME_LENGTH, PREDICTIONS, TIMES
from concord.workers.storage.files import OutputError
from concord.workers.storage.folder_kinds import kind_said
from concord.workers.storage.name_table import FileTable, NameTable, Packed, packed
from concord.workers.storage.object_storage import ObjectStorage, ObjectVersion
from concord.workers.storage.scratch import remove_abandoned
from concord.workers.storage.sealed import unseal

REQUESTS = 32
"""Requests to the store at once."""

PUT_AT_ONCE = 1024
"""Files that are made ready at once for that."""

KEPT = timedelta(days=7)
"""How long finished shards are kept that no published run has: those of a run that goes on later."""


@dataclass(frozen=True)
class _There:
    """What is there.

    - ``manifest``: the manifest and its version; None before the first run
    - ``seen``: files in the folders that readers see, by path
    - ``stored``: files in the store, by path in it
    """

    storage: ObjectStorage
    manifest: ObjectVersion | None
    seen: FileTable
    stored: FileTable

    @classmethod
    def at(cls, storage: ObjectStorage) -> _There:
        """What is there now."""
        version = storage.version(MANIFEST)
        seen, stored = _below(storage, FOLDERS), _below(storage.below(STORE), (*FOLDERS, MARKERS))
        return cls(storage, version, seen, stored)

    @cached_property
    def published(self) -> _PublishedFiles:
        """The published files that are there, of those lists that are there undamaged."""
        lists = _lists(self.manifest)
        shards = (_shards(self.storage, path, digest) for path, digest in lists.items())
        return _PublishedFiles(lists, shards, self.seen)


class _PublishedFiles:
    """Files of a published run: SHA-256 by path, and path by SHA-256; and the names of its shards in the store."""

    def __init__(self, lists: Mapping[str, str], shards: Iterable[list[ListedShard]], there: FileTable) -> None:
        """The lists, the shards of each, and all files that are there."""
        names, paths, digests = list[Packed](), list[Packed](), list[Packed]()
        of_shards = ((part, [file for shard in part for file in shard.files.items()]) for part in shards)
        for part, files in chain([([], list(lists.items()))], of_shards):
            here = [file for file in files if file[0] in there]
            names.append(packed(shard.place.key[:NAME_LENGTH] for shard in part))
            paths.append(packed(path for path, _ in here))
            digests.append(packed(digest for _, digest in here))
        self.shards, self._paths, self._digests = NameTable(names), NameTable(paths), NameTable(digests)

    def digest(self, path: str) -> str | None:
        """The SHA-256 of the file at a path; None where none is published there."""
        row = self._paths.row(path)
        return None if row is None else self._digests[row]

    def path(self, digest: str) -> str | None:
        """The path of a file with that SHA-256; None where none is published."""
        row = self._digests.row(digest)
        return None if row is None else self._paths[row]


class ObjectOutput:
    """The output at ``storage``; as `RunOutput` has it. Made anew for each run."""

    def __init__(self, storage: ObjectStorage) -> None:
        """Asks for nothing yet."""
        self.storage = storage

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Notes what is published; a run that is overtaken is told when it publishes.

        Raises `OutputError` where what is there is no run, and inside another run.
        """
        _check_own(self.storage, self._before.manifest)
        yield

    def begun(self) -> bool:
        """Has any run here finished a shard?"""
        return self._before.manifest is not None or any(path.startswith(MARKERS) for path in self._before.stored)

    def tidy(self) -> None:
        """Clears scratch folders of killed processes: an object that was half sent is none."""
        remove_abandoned()

    def holds(self, entry: FileDigest) -> bool:
        """Is the file in the store, or published? The store vouches for bytes that it has taken."""
        before = self._before
        stored = before.stored.get(entry.path)
        return (stored is not None and stored.size == entry.bytes) or before.published.path(entry.sha256) is not None

    def version(self, path: str) -> str | None:
        """None: a file is in the store, or published under another name; `holds` finds it without reading it."""

    def copy(self, path: str, other: str) -> None:
        """Copies the object within the store."""
        self.storage.copy(path, other)

    def create(self, path: str, data: bytes) -> None:
        """Puts the object on the condition that there is none."""
        self.storage.replace(path, data, over=None)

    def show(self, run: Publication) -> None:
        """Copies what is not there, and commits it by the manifest.

        Raises `OvertakenError` where another run was published since this one began.
        """
        before = self._before
        self._copy(run, before)
        if before.manifest is None or before.manifest.data != run.manifest:
            self.storage.replace(MANIFEST, run.manifest, over=before.manifest)
        self._clear(run, before.published.shards)
        del self._before

    @cached_property
    def _before(self) -> _There:
        """What was there when the run began."""
        return _There.at(self.storage)

    def _copy(self, run: Publication, before: _There) -> None:
        """Makes the files that readers shall see and that were not published ``before``."""
        there = _There.at(self.storage)  # since then the shards of this run have come
        _ = there.published  # worked out once, before threads ask for it
        new = (file for file in run.files() if before.published.digest(file.entry.path) != file.entry.sha256)
        with ThreadPoolExecutor(max_workers=REQUESTS) as pool:
            while part := list(islice(new, PUT_AT_ONCE)):
                for _ in pool.map(lambda file: self._put(file, there), part):
                    pass

    def _put(self, file: PublishedFile, there: _There) -> None:
        """Makes one file that readers shall see, and its times."""
        if file.stored is None:
            self.storage.write(file.entry.path, file.data)
            return
        source = f"{STORE}/{file.stored}"
        if file.stored not in there.stored:
            source = there.published.path(file.entry.sha256) or source
        folder, _, name = source.rpartition("/")
        if folder.endswith(PREDICTIONS):
            times = f"{folder.removesuffix(PREDICTIONS)}{TIMES}/{name}"
            if times in there.seen or times.removeprefix(f"{STORE}/") in there.stored:
                self.storage.copy(times, times_of(file.entry.path))
        self.storage.copy(source, file.entry.path)

    def _clear(self, run: Publication, last: NameTable) -> None:
        """Removes published files of other runs, and from the store what is published or was the last run's.

        Of what is neither only what was written before the manifest: a run that has begun since may be writing.
        """
        there = _There.at(self.storage)
        assert there.manifest is not None
        committed = there.manifest.modified
        names = ((path, path.rpartition("/")[2]) for path, file in there.seen.items() if file.modified <= committed)
        old = [path for path, name in names if FILE_NAME.fullmatch(name) and not run.shows(path)]
        for path, file in there.stored.items():
            folder, _, name = path.partition("/")
            stem = name.partition(".")[0]
            kept = run.keeps(stem)
            gone = (stem in last and file.modified <= committed) or committed - file.modified > KEPT
            if (kept and folder != MARKERS) or (not kept and gone):
                old.append(f"{STORE}/{path}")
        own = staged_prefix(run.manifest)
        staged = ((name, file) for name, file in self.storage.files(STAGED) if not name.startswith(own))
        old += [f"{STAGED}/{name}" for name, file in staged if file.modified <= committed]
        self.storage.remove(old)


def _check_own(storage: ObjectStorage, manifest: ObjectVersion | None) -> None:
    """Raises `OutputError` where a prefix has another kind's manifest, or is one of those that a run writes to."""
    there = None if manifest is None else kind_said(manifest.data)
    if there is not None and there is not FolderKind.RUN:
        raise OutputError(f"{storage.named('')} is {there.phrase}; give a place apart from it")
    above, name = storage.above()
    if name in (*FOLDERS, FEED_FOLDER, STORE) and above.read(MANIFEST) is not None:
        raise OutputError(
            f"{storage.named('')} is inside {above.named('')}, where a run is; give a place apart from it"
        )


def _below(storage: ObjectStorage, folders: Sequence[str]) -> FileTable:
    return FileTable((f"{folder}/{name}", file) for folder in folders for name, file in storage.files(folder))


def _lists(version: ObjectVersion | None) -> dict[str, str]:
    """SHA-256 by name, of the lists that a manifest names; none where it is damaged."""
    content = None if version is None else unseal(version.data)
    try:
        return {} if content is None else RunManifest.model_validate(content).lists
    except ValidationError:
        return {}


def _shards(storage: ObjectStorage, path: str, digest: str) -> list[ListedShard]:
    """The shards of a list; none where it is damaged."""
    data = storage.read(path)
    if data is None or hashlib.sha256(data).hexdigest() != digest:
        return []
    return read_list(data) or []
