"""Contract of readers: a reader is a function from a source to a stream of documents and rejects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from concord.schemas.columns import Misfit, Reject
from concord.schemas.document import Document
from concord.schemas.errors import CorpusError
from concord.schemas.settings import ReaderSettings

Item = TypeVar("Item", Document | Reject, Document | Reject | Misfit)

UTF_8 = "utf-8"
ENCODING_OPTION = "--set encoding="
EMPTY_FILE = "nothing in this file; take it out, or write it again"
"""Why a file without text is rejected."""


class Reader(Protocol):
    """A reader: reads a source as documents."""

    def __call__(self, source: str, settings: Any) -> Iterator[Document | Reject | Misfit]:
        """Each document of ``source`` once, as a document or as a reject with its reason.

        Misfits, spans of a document that its labels cannot express, follow the document.
        ``settings`` is an instance of the reader's own settings class. All documents of a source
        have the same columns. Raises `CorpusError` where the source as a whole cannot be read.
        """
        ...


class ReaderEntry(NamedTuple):
    """A registry entry: the reader, its settings class, and one line of help."""

    read: Reader
    settings: type[ReaderSettings]
    summary: str


class BadLineError(ValueError):
    """A line cannot be read; the message says why and what to do."""


class UndecodableError(BadLineError):
    """Bytes cannot be decoded as text; ``at`` is the position of the first bad one, from 0."""

    def __init__(self, reason: str, at: int) -> None:
        super().__init__(reason)
        self.at = at


def decoded(content: bytes, encoding: str, *, offset: int = 0, option: str = ENCODING_OPTION) -> str:
    """The text of bytes that start at byte ``offset`` of a file. Raises `UndecodableError`.

    ``option`` is the command-line option that names an encoding, for the message.
    """
    if b"\0" in content:
        at = content.index(0)
        raise UndecodableError(
            f"NUL byte at byte {offset + at} of the file; take it out, or convert a file in UTF-16 to UTF-8", at
        )
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        remedy = f"if it is Latin-1: {option}latin-1"
        if encoding != UTF_8:
            remedy = f"name the right encoding with {option}NAME"
        raise UndecodableError(
            f"not {encoding.upper()} at byte {offset + error.start} of the file; {remedy}", error.start
        ) from error


def or_nothing(path: Path, items: Iterator[Item]) -> Iterator[Item | Reject]:
    """The items of a file, or a single reject of the whole file if there are none."""
    first = next(items, None)
    if first is None:
        yield Reject(str(path), None, None, EMPTY_FILE)
        return
    yield first
    yield from items


def source_files(source: str, *, suffix: str = "") -> list[tuple[Path, str]]:
    """The files at ``source`` (a file, or a folder with all below it) with their names below it, sorted.

    In a folder, names that start with ``_`` or ``.`` and names without ``suffix`` are left out.
    Raises `CorpusError` where nothing is found.
    """
    root = Path(source).expanduser()
    if root.is_file():
        files = [(root, root.name)]
    elif root.is_dir():
        named = {path.relative_to(root).as_posix(): path for path in root.rglob(f"*{suffix}") if path.is_file()}
        files = [(path, name) for name, path in sorted(named.items()) if not any(p[0] in "_." for p in name.split("/"))]
    else:
        raise CorpusError(f"{source}: no such file or folder; check the path")
    for _, name in files:
        if not name.isprintable():
            raise CorpusError(
                f"{source!r}: file name {name!r} has characters that cannot be in a document id; rename it"
            )
    if not files:
        raise CorpusError(f"{source}: no {suffix or 'readable'} files in this folder; check the path")
    return files
