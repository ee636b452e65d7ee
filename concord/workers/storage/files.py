"""Atomic writing: a kill, a full disk or a power failure leaves a file or folder either complete or not there."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import stat
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from concord.schemas.errors import InputError

TEMPORARY = ".tmp-"
"""Start of the name of a file that is being written; one left behind by a killed process is reused by the next."""

COPIED_BYTES = 1 << 20
"""Bytes of a file that are copied at once."""

NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.EXDEV, errno.EMLINK, errno.ENOSYS)
"""Error numbers of file systems that have no hard links."""


class OutputError(InputError):
    """A place cannot be written to; the message names it, the system's reason, and what to do."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Context manager that turns an `OSError` of the block into an `OutputError` about writing at ``path``."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"{path}: cannot be written ({error.strerror or error}); see to that place, or give another one, "
            "and run the same command again"
        ) from error


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Context manager that adds ``path`` to an `OSError` without a file name, such as that of a failing disk."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error


def user_folder(variable: str, usual: str) -> Path:
    """Folder of concord's own: ``CONCORD_HOME``, or else in that of an XDG variable, by default ``usual`` at home.

    Raises `RuntimeError` where nobody's home is known.
    """
    if home := os.environ.get("CONCORD_HOME"):
        return Path(home).absolute()
    return Path(os.environ.get(variable) or Path.home() / usual) / "concord"


def make_folder(path: Path) -> None:
    """Makes a folder and its parents, if they do not exist yet. Raises `OutputError`."""
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)


def file_behind(path: Path) -> Path:
    """The file that writing at ``path`` makes or replaces: that of this name, or the one that a link there leads to.

    Raises `OutputError` where something else is there: a folder, a device or a pipe, which a rename would replace.
    """
    with writing(path):
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            mode = stat.S_IFREG
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
        raise OutputError(f"{path}: is {kind}; give a file")
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def write_whole(path: Path, data: bytes) -> None:
    """Writes the `file_behind` a path under a temporary name, then renames it; it is on the disk when this returns.

    The temporary name follows from the file's own, so that the next process overwrites the remains of a killed one.
    Raises `OutputError`; an earlier file at ``path`` is then unchanged.
    """
    path = file_behind(path)
    make_folder(path.parent)
    temporary = _temporary_of(path)
    with writing(path):
        handle = _only_writer(temporary)
        if handle is None:
            temporary = _unique_beside(path)
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            with os.fdopen(handle, "wb", closefd=False) as file:
                file.truncate(0)
                file.write(data)
                file.flush()
                os.fsync(handle)
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        finally:
            os.close(handle)  # the lock lasts until the name is given up
        sync(path.parent)


def create_whole(path: Path, data: bytes) -> None:
    """Writes a file that is not there yet: of two processes at once one does. It is on the disk when this returns.

    Raises `OutputError`, also where another file is there; one of the same bytes is what was asked for.
    """
    temporary = _unique_beside(path)
    write_whole(temporary, data)
    try:
        with writing(path):
            try:
                os.link(temporary, path)
            except FileExistsError:
                if path.read_bytes() != data:
                    raise
            except OSError as error:
                if error.errno not in NO_HARD_LINKS or path.exists():
                    raise
                temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Context manager for a `file_behind` a path that is written in parts: it appears when the block ends well.

    Raises `OutputError`; an earlier file at ``path`` is then unchanged. An `OSError` of the block that names another
    file, such as one that is read, is not changed.
    """
    path = file_behind(path)
    make_folder(path.parent)
    temporary = _unique_beside(path)
    with writing(path):
        file = temporary.open("xb")
    try:
        with file:
            with _writing_below(temporary, path):
                yield file
            with writing(path):
                file.flush()
                os.fsync(file.fileno())
                temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent)


def _only_writer(temporary: Path) -> int | None:
    """The file under that name, open and locked by this process; None where another writes it, or locks do not work."""
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle), temporary.lstat()):
            return handle
    except OSError:
        pass  # locked, renamed since it was opened, or on a file system without locks
    os.close(handle)
    return None


def _temporary_of(path: Path) -> Path:
    return path.with_name(f"{TEMPORARY}{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:32]}")


def _unique_beside(path: Path) -> Path:
    return path.with_name(f"{TEMPORARY}{uuid.uuid4().hex}")


@contextmanager
def staged(target: Path) -> Iterator[Path]:
    """Context manager for replacing a folder: gives a new folder beside ``target``, which replaces it at the end.

    When the block ends well, the new folder is synced to the disk and takes the place of ``target``; when it fails, the
    new folder is removed. Until then ``target`` keeps its content; if it is a link, the folder behind it is replaced. A
    kill between the two renames leaves the old folder beside ``target``, and the next call puts it back.

    Raises `OutputError`, also where something else than a folder is there. An `OSError` of the block that names a file
    elsewhere, such as one that is read, is not changed.
    """
    target = Path(os.path.realpath(target))
    if target.exists() and not target.is_dir():
        raise OutputError(f"{target}: is no folder; give a folder")
    partial, retired = target.with_name(f".{target.name}.partial"), target.with_name(f".{target.name}.old")
    with writing(target):
        _put_back(retired, target)
        if partial.exists():
            shutil.rmtree(partial)
        partial.mkdir(parents=True)
    try:
        with _writing_below(partial, target):
            yield partial
        with writing(target):
            _sync_below(partial)
            if target.exists():
                shutil.rmtree(retired, ignore_errors=True)
                target.replace(retired)
            partial.replace(target)
            sync(target.parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        _put_back(retired, target)
        raise
    shutil.rmtree(retired, ignore_errors=True)


def remove(paths: Iterable[Path]) -> None:
    """Removes files, those that are there; a folder in the place of one stays, as it is nobody's here.

    Raises `OutputError`.
    """
    for path in paths:
        try:
            if path.is_symlink() or not path.is_dir():
                path.unlink(missing_ok=True)
        except OSError as error:
            raise OutputError(f"{path}: cannot be removed ({error.strerror}); see to its rights") from error


def _put_back(retired: Path, target: Path) -> None:
    if retired.exists() and not target.exists():
        retired.replace(target)


@contextmanager
def _writing_below(place: Path, target: Path) -> Iterator[None]:
    """Turns an `OSError` at or below ``place``, which becomes ``target``, into an `OutputError`."""
    try:
        yield
    except OSError as error:
        if error.filename is not None and not Path(os.fsdecode(error.filename)).is_relative_to(place):
            raise
        with writing(target):
            raise


def _sync_below(folder: Path) -> None:
    """Syncs the files of a folder to the disk, whoever wrote them, and then their names."""
    for path in folder.iterdir():
        sync(path)
    sync(folder)


def copy(source: Path, target: Path) -> None:
    """Copies a file. Raises `OSError`, which names the source for a failed read, and no file for a failed write."""
    with source.open("rb") as read, target.open("xb") as write:
        while part := _part(read, source):
            write.write(part)


def _part(file: BinaryIO, path: Path) -> bytes:
    with naming(path):
        return file.read(COPIED_BYTES)


def sync(path: Path) -> None:
    """Puts a file on the disk, or the names in a folder: a rename alone may be lost with the power."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def second_name(path: Path, other: Path) -> None:
    """Gives the file at ``path`` a second name ``other``, by a hard link, or by a copy if links are not supported.

    Raises `OutputError`.
    """
    with writing(other):
        try:
            os.link(path, other)
        except OSError as error:
            if error.errno not in NO_HARD_LINKS:
                raise
            write_whole(other, path.read_bytes())


def point(link: Path, target: str) -> None:
    """Makes ``link`` a symbolic link to ``target``, in one step wherever it pointed before. Raises `OutputError`."""
    if link.is_symlink() and str(link.readlink()) == target:
        return
    temporary = _unique_beside(link)
    with writing(link):
        try:
            temporary.symlink_to(target)
            temporary.replace(link)
        finally:
            temporary.unlink(missing_ok=True)
        sync(link.parent)
