"""A run's output in a folder that driver and workers see under one path.

What readers see (``predictions``, ``manifest.json``, ...) are symbolic links through the one link ``.current`` to a
folder in ``.published``, whose files are hard links into the store. Publishing builds a new such folder and turns
``.current`` to it by one rename, so a reader sees the last whole run or the new one, at every moment and after
every kill.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from concord.flows.errors import RunFolderError
from concord.flows.runfolder.delta_table import TABLE_FOLDER
from concord.flows.runfolder.layout import (
    FEED_FOLDER,
    FILE_NAME,
    FOLDERS,
    MANIFEST,
    PUBLISHED_NAMES,
    STAGED,
    STORE,
    Publication,
    PublishedFile,
    files_seen,
    staged_prefix,
    times_of,
)
from concord.flows.runfolder.locks import LOCK, locked
from concord.schemas.folders import FolderKind
from concord.schemas.run import FileDigest
from concord.workers.labelling.output import MARKERS, PREDICTIONS
from concord.workers.storage.files import (
    TEMPORARY,
    create_whole,
    make_folder,
    point,
    remove,
    second_name,
    sync,
    write_whole,
    writing,
)
from concord.workers.storage.folder_kinds import check_kind
from concord.workers.storage.scratch import remove_abandoned
from concord.workers.storage.storage import FolderStorage

PUBLISHED, CURRENT = ".published", ".current"
NUMBER = re.compile(r"[0-9]{8}")
"""What folders in `PUBLISHED` are called."""


class FolderOutput(NamedTuple):
    """The output in the folder ``root``; as `RunOutput` has it."""

    root: Path

    @property
    def storage(self) -> FolderStorage:
        """All files of the run."""
        return FolderStorage(self.root)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keeps other runs on this machine out of the folder for the length of the block.

        The lock ends with the process, however it ends. Raises `RunFolderError`, also where something else than a run
        of concord's is in the folder, and `OutputError`.
        """
        check_kind(self.root, FolderKind.RUN)
        make_folder(self.root)
        _check_own(self.root)
        with locked(self.root / LOCK, self.root):
            yield

    def begun(self) -> bool:
        """Has any run here finished a shard?"""
        return (self.root / CURRENT).is_symlink() or any((self.root / STORE / MARKERS).glob("*.json"))

    def tidy(self) -> None:
        """Clears what killed processes left half written, and their scratch folders."""
        remove_abandoned()
        for folder in ("", ".*/", ".*/*/", f"{TABLE_FOLDER}/", f"{TABLE_FOLDER}/*/"):
            remove(self.root.glob(f"{folder}{TEMPORARY}*"))

    def holds(self, entry: FileDigest) -> bool:
        """Reads and hashes the file."""
        return intact(self.root / STORE, entry)

    def version(self, path: str) -> str | None:
        """Size, times and number of the file: no program can set the time of its last change of any kind."""
        try:
            status = os.stat(f"{self.root}/{STORE}/{path}")  # noqa: PTH116 — a Path takes longer than the call
        except OSError:
            return None
        return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"

    def copy(self, path: str, other: str) -> None:
        """A hard link, or a copy where a disk has none; a file that is there stays."""
        place = self.root / other
        make_folder(place.parent)
        if not place.exists():
            second_name((self.root / path).resolve(), place)

    def create(self, path: str, data: bytes) -> None:
        """Writes the file beside its place, and links it there."""
        place = self.root / path
        make_folder(place.parent)
        create_whole(place, data)

    def show(self, run: Publication) -> None:
        """Shows the run in one step."""
        out = self.root
        if not _is_current(out, run):
            number = _number(out)
            _clear_published(out, but=number)
            folder = out / PUBLISHED / f"{number + 1:08d}"
            _fill(folder, out, run)
            for name in PUBLISHED_NAMES:
                point(out / name, f"{CURRENT}/{name}")
            point(out / CURRENT, f"{PUBLISHED}/{folder.name}")
        _clear_published(out, but=_number(out))
        _clear_store(FolderStorage(out / STORE), run)
        remove(out / STAGED / name for name in self.storage.names(STAGED))


def _check_own(out: Path) -> None:
    """Raises `RunFolderError` if the folder holds files that concord did not write; they are never deleted."""
    for name in (*PUBLISHED_NAMES, CURRENT):
        if not (out / name).exists() or (out / name).is_symlink():
            continue
        if (out / STORE).is_dir() and (out / PUBLISHED).is_dir():
            raise RunFolderError(
                f"{out / name}: no link, as if the folder had been copied without its links (cp -rL); delete "
                f"{', '.join((*PUBLISHED_NAMES, CURRENT))} and {PUBLISHED} there, and the same command makes them "
                f"anew without labelling again, or copy with cp -a"
            )
        raise RunFolderError(
            f"{out / name}: not written by this version of concord; give another --out, or move that away"
        )
    if (out / PUBLISHED).is_symlink():
        raise RunFolderError(f"{out / PUBLISHED}: a symbolic link, where concord makes a folder; remove it")
    strange = [f"{PUBLISHED}/{path.name}" for path in _shown(out / PUBLISHED) if not _is_published(path)]
    feed = (f"{FEED_FOLDER}/{path.name}" for path in _shown(out / FEED_FOLDER))
    strange += [
        place for place in (*files_seen(FolderStorage(out)), *feed) if not FILE_NAME.fullmatch(Path(place).name)
    ]
    if strange:
        raise RunFolderError(
            f"{out / min(strange)}: not written by concord, which would delete it or have readers take it for a part "
            "of the run; move it away, and run the same command again"
        )


def _shown(folder: Path) -> list[Path]:
    """What is in a folder, but for what readers of Parquet leave out: names that start with a dot or a low line."""
    found = folder.iterdir() if folder.is_dir() else ()
    return [path for path in found if not path.name.startswith((".", "_"))]


def _is_published(path: Path) -> bool:
    return NUMBER.fullmatch(path.name) is not None and path.is_dir() and not path.is_symlink()


def intact(folder: Path, entry: FileDigest) -> bool:
    """Whether the file exists in a folder with the bytes that were written."""
    path = folder / entry.path
    try:
        if path.stat().st_size != entry.bytes:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == entry.sha256
    except OSError:
        return False


def _is_current(out: Path, run: Publication) -> bool:
    """Do readers have this publication, undamaged? The files in the store are known to be whole."""
    try:
        if (out / MANIFEST).read_bytes() != run.manifest:
            return False
    except OSError:
        return False
    if not all(map(run.shows, files_seen(FolderStorage(out)))) or not (out / FEED_FOLDER).is_dir():
        return False
    return all(_is_second_name(file, out) or intact(out, file.entry) for file in run.files())


def _is_second_name(file: PublishedFile, out: Path) -> bool:
    return file.stored is not None and _is_one(out / STORE / file.stored, out / file.entry.path)


def _is_one(path: Path, other: Path) -> bool:
    """Are these two names of one file?"""
    try:
        return path.samefile(other)
    except OSError:
        return False


def _number(out: Path) -> int:
    """The number of the folder that readers see, or the last there is where the link is damaged; 0 for none."""
    current = out / CURRENT
    target = current.readlink() if current.is_symlink() else Path()
    if target.parent == Path(PUBLISHED) and NUMBER.fullmatch(target.name):
        return int(target.name)
    return max((int(path.name) for path in _shown(out / PUBLISHED) if _is_published(path)), default=0)


def _fill(folder: Path, out: Path, run: Publication) -> None:
    store = out / STORE
    for name in FOLDERS:
        make_folder(folder / name)
    for file in run.files():
        place = folder / file.entry.path
        if file.stored is None:
            _write(file, place, out)
            continue
        second_name(store / file.stored, place)
        times = store / times_of(file.stored)
        if file.stored.startswith(f"{PREDICTIONS}/") and times.is_file():
            second_name(times, folder / times_of(file.entry.path))
    _fill_feed(folder / FEED_FOLDER, out, staged_prefix(run.manifest))
    write_whole(folder / MANIFEST, run.manifest)
    with writing(folder):
        for name in (*FOLDERS, FEED_FOLDER):
            sync(folder / name)
        sync(folder.parent)


def _fill_feed(folder: Path, out: Path, prefix: str) -> None:
    """The feed's files that readers see already, and the one that is staged under the prefix."""
    make_folder(folder)
    storage = FolderStorage(out)
    for name in storage.names(f"{CURRENT}/{FEED_FOLDER}"):
        second_name(out / CURRENT / FEED_FOLDER / name, folder / name)
    for name in storage.names(STAGED):
        if name.startswith(prefix):
            second_name(out / STAGED / name, folder / name.removeprefix(prefix))


def _write(file: PublishedFile, place: Path, out: Path) -> None:
    """Makes a file with bytes of its own; the last run's where it is the same."""
    if intact(out, file.entry):
        second_name(out / file.entry.path, place)
    else:
        write_whole(place, file.data)


def _clear_store(store: FolderStorage, run: Publication) -> None:
    for folder in store.names(""):
        names = (name for name in store.names(folder) if not run.keeps(name.partition(".")[0]))
        remove(store.root / folder / name for name in names)


def _clear_published(out: Path, *, but: int) -> None:
    for path in _shown(out / PUBLISHED):
        if path.name != f"{but:08d}" and _is_published(path):
            with writing(path):
                shutil.rmtree(path)
