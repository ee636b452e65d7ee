"""Contract of readers: a reader is a function from a source to a stream of documents and rejects."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from concord.schemas.columns import Misfit, Notice, Reject
from concord.schemas.document import Document
from concord.schemas.errors import CorpusError
from concord.schemas.settings import ReaderSettings

ReaderItem = Document | Reject | Misfit | Notice
"""What a reader yields: documents and rejects, and what is to be told of them."""

Item = TypeVar("Item", Document | Reject, Document | Reject | Misfit, Document | Reject | Misfit | Notice)

UTF_8 = "utf-8"
ENCODING_OPTION = "--set encoding="
EMPTY_FILE = "nothing in this file; take it out, or write it again"
"""Why a file without text is rejected."""


HEAD_BYTES = 1 << 16
"""Bytes of a file that are looked at for its form."""
JSON_BYTES = 1 << 22
"""Bytes of a file of JSON that are looked at."""


class FileStart:
    """The start of the file at ``path``, which is read when a recogniser of forms asks for it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def head(self) -> bytes:
        """First bytes of the file."""
        with self.path.open("rb") as file:
            head = file.read(HEAD_BYTES)
            if head.lstrip()[:1] in (b"{", b"["):
                head += file.read(JSON_BYTES - HEAD_BYTES)  # a record may be long
        return head

    @cached_property
    def text(self) -> str:
        """First lines of the file; empty where these are no text, or blank."""
        head = self.head.removeprefix(BOM_UTF8)
        text = head.decode(UTF_8, errors="replace")
        if b"\0" in head or not text.strip():
            return ""
        if len(head) in (HEAD_BYTES, JSON_BYTES):
            text = text[: text.rfind("\n") + 1] or text  # the last line may be cut
        return text

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the text that are neither blank nor comments."""
        return [line for line in self.text.splitlines() if line.strip() and not re.match(r"#+ ", line)]

    @cached_property
    def rows(self) -> list[list[str]]:
        """The columns of these lines, between tabs or else between blanks; none where lines have more than others."""
        for separator in ("\t", None):
            rows = [line.split(separator) for line in self.lines]
            if rows and len(rows[0]) > 1 and {len(row) for row in rows} == {len(rows[0])}:
                return rows
        return []


class SourceForm(NamedTuple):
    """A form that a file can be known to have by its start.

    - ``title``: what such a file is, in messages.
    - ``rank``: forms are tried by rank, the lowest first, and the first that recognises a file is its form. Below 100 a
      form is known by the file's bytes or its name, from there on by its text.
    - ``recognises``: function that says whether the file can be of no other form that comes later.
    - ``remedy``: what to do with such a file where no reader takes it.
    - ``in_folder``: whether a folder of such files is read rather than one of them.
    """

    title: str
    rank: int
    recognises: Callable[[FileStart], bool]
    remedy: str = ""
    in_folder: bool = False

    def __str__(self) -> str:
        return self.title


def in_text(recognises: Callable[[str], bool]) -> Callable[[FileStart], bool]:
    """Recogniser of files whose first lines, which are never blank, are text of a form."""
    return lambda start: bool(start.text) and recognises(start.text)


class Likelihood(IntEnum):
    """How likely options of a reader fit a file; the lowest is tried first."""

    ASKED = 0
    """The content of the file asks for them."""
    USUAL = 1
    GUESS = 2


Fits = Callable[[SourceForm, Path], Iterable[tuple[Likelihood, Mapping[str, Any]]]]
"""Function from a file of a form to options that may read it."""


def as_it_is(_form: SourceForm, _path: Path) -> Iterable[tuple[Likelihood, Mapping[str, Any]]]:
    """The reader without options."""
    return [(Likelihood.USUAL, {})]


class Reader(Protocol):
    """A reader: reads a source as documents."""

    def __call__(self, source: str, settings: Any) -> Iterator[ReaderItem]:
        """Each document of ``source`` once, as a document or as a reject with its reason.

        Misfits, spans of a document that its labels cannot express, follow the document. Notices stand anywhere.
        ``settings`` is an instance of the reader's own settings class. All documents of a source
        have the same columns. Raises `CorpusError` where the source as a whole cannot be read.
        """
        ...


class ReaderEntry(NamedTuple):
    """A registry entry: the reader, its settings class, and one line of help.

    - ``forms``: forms of files that it recognises, which are no other reader's.
    - ``takes``: forms of other readers that it takes, too. If it has no forms of either kind, it refuses nothing.
    - ``fits``: function that gives options for a file of these forms; None: its own forms are read without options.
    - ``suffixes``: ends of the names of files in a folder that it reads; empty: it reads all.
    - ``finds``: what a source must have somewhere, such as a tag; empty: it may have nothing.
    - ``asked``: function that says whether settings ask for a file of another form.
    """

    read: Reader
    settings: type[ReaderSettings]
    summary: str
    forms: tuple[SourceForm, ...] = ()
    takes: tuple[SourceForm, ...] = ()
    fits: Fits | None = None
    suffixes: tuple[str, ...] = ()
    finds: str = ""
    asked: Callable[[SourceForm, Any], bool] | None = None


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


def text_fault(text: str) -> str:
    """Why a string of a file with escapes cannot be stored; empty if it can."""
    if "\0" in text:
        return "holds a NUL character; take it out"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"holds half of a character at {error.start}; write the file in UTF-8 anew"
    return ""


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
