"""Names of the files in a run's output, and what a folder and an object store do for it in ways of their own.

Two halves. `STORE` holds finished shards by key; only concord reads it. `PUBLISHED_NAMES` are what readers open: tables
by shard, lists of these, and the manifest that names the lists. File names there hold the key of
their content: a reader
that listed the last run and opens its files after the next one was published finds the same bytes or none.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from concord.schemas.run import FileDigest
from concord.workers.labelling.output import CERTIFICATES, PREDICTIONS, REJECTS, TIMES
from concord.workers.storage.folder_kinds import MANIFEST as MANIFEST
from concord.workers.storage.folder_kinds import PURPOSE
from concord.workers.storage.storage import Storage

CORPUS, SOURCES, STORE = PURPOSE, ".sources.json", ".shards"
AT_WORK = ".labelling"
"""Is there while a run labels, and after one that was killed."""
ADOPTED_FOLDER = ".adopted"
"""The answers of another program that a run is of, where a run of concord's own names its model."""
SHARD_LISTS = "_manifest"
"""The folder of the tables that list shards and their files."""
FOLDERS = (PREDICTIONS, REJECTS, TIMES, CERTIFICATES, SHARD_LISTS)
FEED_FOLDER, STAGED = "changes", ".changes"
"""The folders of the feed of changes, and of its file of a run that is not published yet, see `feed`."""
PUBLISHED_NAMES = (*FOLDERS, FEED_FOLDER, MANIFEST)
"""What readers open."""
FILE_NAME = re.compile(r"[0-9]{8}-[0-9a-f]{16}\.parquet")
"""What files that readers see are called: the number of the shard or list, and a key of the content."""


class PublishedFile(NamedTuple):
    """A file as a publication has it.

    - ``entry``: name, size and digest
    - ``stored``: the file in the store that it is; None for bytes of its own
    - ``data``: these bytes
    """

    entry: FileDigest
    stored: str | None
    data: bytes = b""


class Publication(Protocol):
    """The files of a run as readers get them.

    - ``manifest``: its bytes
    """

    manifest: bytes

    def files(self) -> Iterator[PublishedFile]:
        """The files, in the order of the corpus; made anew at each call."""

    def shows(self, path: str) -> bool:
        """Is this one of the files, or the times of one?"""

    def keeps(self, name: str) -> bool:
        """Are these files of the store, by the start of their names, those of a shard of the run?"""


class RunOutput(Protocol):
    """Where a run writes, while it is at work."""

    @property
    def storage(self) -> Storage:
        """All files of the run."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Keeps the place for this run for the length of the block, as far as its kind can. Raises `RunFolderError`."""

    def begun(self) -> bool:
        """Has any run here finished a shard?"""

    def tidy(self) -> None:
        """Clears what killed processes left half written. Raises `OutputError`."""

    def holds(self, entry: FileDigest) -> bool:
        """Does the store hold a file of a finished shard, undamaged?"""

    def version(self, path: str) -> str | None:
        """What tells a file of the store from any other without reading it; None where nothing does."""

    def copy(self, path: str, other: str) -> None:
        """Gives a file that readers see a second name, or a copy in the store. Raises `OutputError`."""

    def create(self, path: str, data: bytes) -> None:
        """Writes a file that is not there yet, whole or not at all.

        A file of these bytes may be there. Raises `OutputError`, also where another one is.
        """

    def show(self, run: Publication) -> None:
        """Shows the run to readers, then removes what is neither shown nor of its shards.

        May be killed at any point: the same call again ends in the same state. Raises `OutputError`.
        """


def staged_prefix(manifest: bytes) -> str:
    """What the name of a staged file of the feed begins with, by the manifest of its run."""
    return f"{hashlib.sha256(manifest).hexdigest()[:16]}-"


def foreign_files(storage: Storage, listed: Collection[str]) -> list[str]:
    """Files in the folders of a run that it does not list, and that readers of those folders read nevertheless."""
    times = {times_of(path) for path in listed if path.startswith(f"{PREDICTIONS}/")}
    return sorted(set(files_seen(storage)) - times - set(listed))


def files_seen(storage: Storage) -> Iterator[str]:
    """What is in the folders that readers see, but for what begins with a dot or a low line: readers leave that out."""
    return (f"{folder}/{name}" for folder in FOLDERS for name in storage.names(folder) if name[0] not in "._")


def times_of(path: str) -> str:
    """The file of times that belongs to one of predictions."""
    return f"{TIMES}/{path.rpartition('/')[2]}"
