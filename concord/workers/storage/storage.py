"""Where a run keeps its files: a folder that all machines see, or a prefix of an object store.

Files are named by their path in it, with slashes. Each is written whole or not at all.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from concord.schemas.errors import InputError
from concord.schemas.secrets import redact
from concord.workers.storage.files import naming, remove, write_whole
from concord.workers.storage.object_storage import SCHEMES, ObjectStorage

URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
"""Start of a URI, also of one that went through `Path`."""


class StorageError(InputError):
    """A URI of a kind that is not known."""


class Storage(Protocol):
    """The files below a folder or a prefix."""

    @property
    def uri(self) -> str:
        """The folder or the prefix, as the user names it."""

    def below(self, folder: str) -> Storage:
        """The files below a folder in this one."""

    def read(self, name: str) -> bytes | None:
        """The bytes of a file; None where there is none.

        Raises `OSError` where a file cannot be read, and `OutputError` where an object store cannot be reached.
        """

    def opened(self, name: str) -> BinaryIO:
        """A file for reading parts of it. Raises `OSError` where it cannot be read."""

    def write(self, name: str, data: bytes) -> None:
        """Writes a file, which is kept for good when this returns. Raises `OutputError`."""

    def names(self, folder: str) -> Iterator[str]:
        """The names of what is directly in a folder, in any order; none where there is no folder."""

    def remove(self, names: Sequence[str]) -> None:
        """Removes files, those that are there. Raises `OutputError`."""


class FolderStorage(NamedTuple):
    """A folder that all machines of a run see under the same path."""

    root: Path

    @property
    def uri(self) -> str:
        """The path."""
        return str(self.root)

    def below(self, folder: str) -> FolderStorage:
        """As `Storage` has it."""
        return FolderStorage(self.root / folder)

    def read(self, name: str) -> bytes | None:
        """As `Storage` has it."""
        try:
            return (self.root / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def opened(self, name: str) -> BinaryIO:
        """As `Storage` has it."""
        return (self.root / name).open("rb")

    def write(self, name: str, data: bytes) -> None:
        """As `Storage` has it."""
        write_whole(self.root / name, data)

    def names(self, folder: str) -> Iterator[str]:
        """As `Storage` has it."""
        there = self.root / folder
        if there.is_dir():
            with os.scandir(there) as entries:
                for entry in entries:
                    yield entry.name

    def remove(self, names: Sequence[str]) -> None:
        """As `Storage` has it."""
        remove([self.root / name for name in names])


def read_if_there(storage: Storage, name: str) -> bytes | None:
    """The bytes of a file; None where there is none, and where it cannot be read."""
    try:
        return storage.read(name)
    except OSError:
        return None


def file_bytes(place: str | Path, most: int = -1) -> bytes:
    """The bytes of a file at a path, or at a URI such as ``s3://bucket/rules.yaml``.

    ``most``: bytes after which a file on this machine is not read further; without it, all of it is.

    Raises `OSError` where it is not there or cannot be read, and `StorageError` for a URI of another kind.
    """
    uri = str(place)
    if URI.match(uri) is None:
        return _bytes_of(Path(place).expanduser(), most)
    storage = storage_at(uri)
    if isinstance(storage, FolderStorage):
        return _bytes_of(storage.root, most)
    base, question, query = uri.partition("?")
    folder, _, name = base.rpartition("/")
    data = storage_at(f"{folder}{question}{query}").read(name)
    if data is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), redact(uri))
    return data


def _bytes_of(path: Path, most: int) -> bytes:
    with naming(path), path.open("rb") as file:
        return file.read(most)


def storage_at(uri: str) -> Storage:
    """The files at a path, or at a URI such as ``s3://bucket/out``. Nothing is asked of it yet.

    Raises `StorageError` for a URI of another kind.
    """
    match = URI.match(uri)
    if match is None:
        return FolderStorage(Path(uri).expanduser().absolute())
    if match[1].lower() == "file":
        return FolderStorage(Path(unquote(urlsplit(uri).path)))
    if match[1].lower() in SCHEMES and "://" in uri:
        return ObjectStorage(uri)
    kinds = ", ".join(f"{scheme}://" for scheme in SCHEMES)
    raise StorageError(f"{redact(uri)}: a place of an unknown kind; give a folder, or a URI with one of {kinds}")
