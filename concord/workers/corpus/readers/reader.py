"""Contract of readers: a reader is a function from a source to a stream of documents and rejects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
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


class SourceForm(StrEnum):
    """Form of a file; the value describes it in messages."""

    PARQUET = "a Parquet file"
    DOC_BIN = "a .spacy file"
    BRAT = "brat's texts with their annotations"
    XML = "XML"
    SPANS = "JSON of texts with spans"
    TEXTS = "JSON of texts"
    CONLLU = "CoNLL-U"
    CONLL = "a column file with lines that open documents"
    NESTED = "a column file with nested labels"
    COLUMNS = "a column file"
    PLAIN_COLUMNS = "a column file with plain labels"
    TABLE = "a table of columns between tabs"
    PUBTATOR = "PubTator"
    ADDRESSES = "lines of a field's text, a bar and its label"
    TAGGED_LINES = "lines of fields in inline tags"
    MAIL = "mails with inline tags"
    CSV = "a CSV file"
    LABEL_LIST = "a list of labels, one a line"
    WEBANNO = "WebAnno TSV"
    UIMA = "a UIMA CAS"
    BMES = "a column file in BMES"
    BRACKETS = "a column file with brackets, as CoNLL-2012's"
    DATATURKS = "DataTurks' JSON"
    STAND_OFF = "XML of a text with stand-off tags, as i2b2's"
    I2B2 = "i2b2's note with concepts beside it"
    COMPREHEND = "output of AWS Comprehend"
    GROBID_RESULT = "TEI of GROBID's results"
    PACKED = "a packed file"
    CSV_WORDS = "a CSV file of a word a row"
    CSV_LABELS = "a CSV file with lists in a column, which look like labels"
    PARQUET_SPANS = "a Parquet file with spans in a column"
    SLASHED = "a text of words with a slash and a label, as libpostal's"
    INLINE_TAGS = "a text with inline tags"


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

    - ``forms``: forms of files that it takes, of those that are known for certain; None: nothing is refused.
    - ``suffixes``: ends of the names of files in a folder that it reads; empty: it reads all.
    - ``finds``: what a source must have somewhere, such as a tag; empty: it may have nothing.
    - ``asked``: function that says whether settings ask for a file of another form.
    """

    read: Reader
    settings: type[ReaderSettings]
    summary: str
    forms: frozenset[SourceForm] | None = None
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
