"""PubTator files: each document is an abstract with spans of characters; BC5CDR and other PubMed corpora use this form.

``ID|t|title`` and ``ID|a|abstract``, then a span a line (ID, start, end, words, type and more, between tabs), and a
blank line. Characters count from 0 over the title, one blank, and the abstract.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from concord.schemas.columns import Misfit, Reject
from concord.schemas.document import Document
from concord.workers.corpus.readers.lines import Line, id_prefix, line_groups, line_text
from concord.workers.corpus.readers.reader import (
    BadLineError,
    ReaderEntry,
    SourceForm,
    in_text,
    or_nothing,
    source_files,
)
from concord.workers.corpus.readers.spans import CharSpan, SpanFault, marked_document
from concord.workers.corpus.settings import PubtatorSettings

PART = re.compile(r"([^|\t]*[^|\s])\|([ta])\|(.*)", re.DOTALL)
OFFSET = re.compile(r"[0-9]{1,9}")
SPAN_COLUMNS, RELATION_COLUMNS = 5, 4
SEVERAL = "have several parts; taken as one"
WANTED = "want ID, start, end, words and type between tabs"


class _LineError(BadLineError):
    """A line cannot be read; carries the reason and the line (from 1)."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line


class _Abstract(NamedTuple):
    """A document as the file has it.

    - ``texts``: title and abstract.
    - ``spans``: all its spans.
    - ``parts``: the spans that name several things by words of their own.
    """

    texts: list[str]
    spans: list[CharSpan]
    parts: list[CharSpan]

    @property
    def text(self) -> str:
        """Title and abstract."""
        return " ".join(self.texts)


def read_pubtator(source: str, settings: PubtatorSettings) -> Iterator[Document | Reject | Misfit]:
    """Documents of a file or of all files of a folder, named by their ids, with text and character offsets.

    One without an id, or with one that was there before, is rejected under its place in the file.
    """
    seen: set[str] = set()
    for path, name in source_files(source):
        yield from or_nothing(path, _documents(path, id_prefix(name, None, alone=True), settings, seen))


def _documents(
    path: Path, prefix: str, settings: PubtatorSettings, seen: set[str]
) -> Iterator[Document | Reject | Misfit]:
    for number, lines in enumerate(line_groups(path), 1):
        name = _name(lines[0], settings.encoding)
        doc_id = name if name and name not in seen else f"{prefix}-{number:04d}"
        try:
            if name in seen:
                raise _LineError(f"document {name!r} was there before; take out one of the two", lines[0].number)
            seen.add(doc_id)
            abstract = _abstract(lines, settings.encoding)
        except _LineError as error:
            yield Reject(str(path), error.line, doc_id, str(error))
            continue
        document, faults = marked_document(doc_id, abstract.text, abstract.spans, settings)
        yield document
        for span, reason in sorted([*faults, *(SpanFault(span, SEVERAL) for span in abstract.parts)]):
            yield Misfit(str(path), span.line, doc_id, reason)


def _name(line: Line, encoding: str) -> str | None:
    """Id of the document that a line opens; None if it opens none."""
    try:
        title = PART.fullmatch(line_text(line, encoding))
    except BadLineError:
        return None
    return title[1].strip() if title else None


def _abstract(lines: Sequence[Line], encoding: str) -> _Abstract:
    """Raises `_LineError`."""
    abstract = _Abstract([], [], [])
    owner = ""
    for line in lines:
        try:
            text = line_text(line, encoding)
            owner = owner or _owner(text)
            _add(abstract, text, line.number, owner)
        except BadLineError as error:
            raise _LineError(str(error), line.number) from error
    if not abstract.text.strip():
        raise _LineError("document has no tokens", lines[0].number)
    return abstract


def _owner(line: str) -> str:
    title = PART.fullmatch(line)
    if title is None or title[2] != "t":
        raise BadLineError("no title; a document begins with ID|t|title, then ID|a|abstract")
    return title[1].strip()


def _add(abstract: _Abstract, line: str, number: int, owner: str) -> None:
    """Adds the content of one line to the abstract. Raises `BadLineError`."""
    part = PART.fullmatch(line)
    columns = line.split("\t")
    name = (part[1] if part else columns[0]).strip()
    if name != owner:
        raise BadLineError(f"document {name!r} inside {owner!r}; put a blank line between two documents")
    if part is not None:
        if part[2] != "ta"[len(abstract.texts) : len(abstract.texts) + 1]:
            raise BadLineError("a second title or abstract; put a blank line between two documents")
        abstract.texts.append(part[3])
    elif len(columns) != RELATION_COLUMNS or OFFSET.fullmatch(columns[1]):
        span = _span(columns, abstract.text, number)
        abstract.spans.append(span)
        if len(columns) > SPAN_COLUMNS + 1:
            abstract.parts.append(span)


def _span(columns: Sequence[str], text: str, number: int) -> CharSpan:
    """Raises `BadLineError`."""
    if len(columns) < SPAN_COLUMNS or not (OFFSET.fullmatch(columns[1]) and OFFSET.fullmatch(columns[2])):
        raise BadLineError(f"no span; {WANTED}")
    start, end, words, kind = int(columns[1]), int(columns[2]), columns[3], columns[4].strip()
    if not words or not kind or len(kind.split()) > 1:
        raise BadLineError(f"no span; {WANTED}, and no blank in a type")
    if text[start:end] != words:
        raise BadLineError(
            f"characters {start} to {end} are {text[start:end][:40]!r} and not {words[:40]!r}; count from 0 over the "
            "title, one blank and the abstract"
        )
    return CharSpan(start, end, kind, number)


def _is_pubtator(text: str) -> bool:
    return re.match(r"\s*[^|\t\n]*[^|\s]\|t\|", text) is not None


PUBTATOR_READER = ReaderEntry(
    read_pubtator,
    PubtatorSettings,
    "PubTator: abstracts with spans of characters",
    forms=(SourceForm("PubTator", 220, in_text(_is_pubtator)),),
)
