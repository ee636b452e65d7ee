"""What a reader is: a function from a source to a stream of documents and rejects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from schemas.columns import Reject
from schemas.document import Document
from schemas.settings import ReaderSettings
from workers.corpus.parquet import CorpusError


class Reader(Protocol):
    """Reads a source."""

    def __call__(self, source: str, settings: Any) -> Iterator[Document | Reject]:
        """Each document of ``source`` once, as a document or as a reject with its reason.

        ``settings`` is an instance of the reader's own settings class. All documents of a source
        have the same columns. Raises `CorpusError` where the source as a whole cannot be read.
        """
        ...


class ReaderEntry(NamedTuple):
    """A registry entry: the reader, its settings class, and one line of help."""

    read: Reader
    settings: type[ReaderSettings]
    summary: str


def source_files(source: str, *, suffix: str = "") -> list[tuple[Path, str]]:
    """The files at ``source`` (a file, or a folder with all below it) with their names below it, sorted.

    In a folder, names that start with ``_`` or ``.`` and names without ``suffix`` are left out.
    Raises `CorpusError` where nothing is found.
    """
    root = Path(source).expanduser()
    if root.is_file():
        return [(root, root.name)]
    if not root.is_dir():
        raise CorpusError(f"{source}: no such file or folder; check the path")
    named = {path.relative_to(root).as_posix(): path for path in root.rglob(f"*{suffix}") if path.is_file()}
    files = [(path, name) for name, path in sorted(named.items()) if not any(p[0] in "_." for p in name.split("/"))]
    for _, name in files:
        if not name.isprintable():
            raise CorpusError(f"{source}: file name {name!r} has characters that cannot be in a document id; rename it")
    if not files:
        raise CorpusError(f"{source}: no {suffix or 'readable'} files in this folder; check the path")
    return files
