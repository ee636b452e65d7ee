"""Files with one token a line and a blank line after each sentence: what the column readers share."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

from schemas.columns import LABELS, Reject
from schemas.document import TOKENS, Document
from schemas.labels import OUTSIDE, iob1_to_bio

SKIP = "_"
BLANKS = re.compile(r"[ \t]+")
SUFFIXES = (".txt", ".conll", ".tsv", ".iob", ".iob2", ".bio", ".dat")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Fault(NamedTuple):
    """What is wrong in which line (from 1)."""

    line: int
    reason: str


class Block(NamedTuple):
    """Consecutive lines without a blank one: a sentence, or a line that opens a document."""

    line: int
    rows: list[list[str]]
    fault: Fault | None
    opens_document: bool


class Draft(NamedTuple):
    """The sentences of one document before they are checked; ``line`` is where it starts."""

    line: int
    sentences: list[Block]


class Form(NamedTuple):
    """How lines are to be read; ``columns`` in order, `SKIP` for one that is not kept."""

    columns: tuple[str, ...]
    separator: Literal["whitespace", "tab"]
    scheme: Literal["bio", "plain"]
    boundary: bytes | None = None


class _BadLineError(ValueError):
    """A line that cannot be read."""


def blocks(path: Path, form: Form) -> Iterator[Block]:
    """The blocks of a file, streaming; a block with a bad line carries the first fault in it."""
    first, offset = 0, 0
    rows: list[list[str]] = []
    fault: Fault | None = None
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            line = raw.rstrip(b"\r\n")
            if number == 1:
                line = line.removeprefix(BYTE_ORDER_MARK)
            words = line.split(None, 1)
            opens = bool(words) and words[0] == form.boundary
            if (opens or not line.strip(b" \t")) and first:
                yield Block(first, rows, fault, opens_document=False)
                first, rows, fault = 0, [], None
            if opens:
                yield Block(number, [], None, opens_document=True)
            elif line.strip(b" \t"):
                first = first or number
                try:
                    rows.append(_row(line, form, offset))
                except _BadLineError as error:
                    fault = fault or Fault(number, f"line {number}: {error}")
            offset += len(raw)
    if first:
        yield Block(first, rows, fault, opens_document=False)


def _row(line: bytes, form: Form, offset: int) -> list[str]:
    """The columns of a line that starts at byte ``offset``."""
    if b"\0" in line:
        raise _BadLineError(f"NUL byte at byte {offset + line.index(0)} of the file")
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise _BadLineError(f"not valid UTF-8 at byte {offset + error.start} of the file") from error
    row = text.split("\t") if form.separator == "tab" else BLANKS.split(text.strip(" \t"))
    if len(row) != len(form.columns):
        raise _BadLineError(f"{len(row)} columns, want {len(form.columns)} ({' '.join(form.columns)})")
    for name, value in zip(form.columns, row, strict=True):
        if name != SKIP and not value:
            raise _BadLineError(f"column {name!r} is empty")
        if name == LABELS and form.scheme == "bio" and not _is_bio(value):
            raise _BadLineError(f"label {value!r} is not O, B-TYPE or I-TYPE")
    return row


def _is_bio(label: str) -> bool:
    return label == OUTSIDE or (label[:2] in ("B-", "I-") and len(label) > 2)


def split_at_boundaries(stream: Iterator[Block]) -> Iterator[Draft]:
    """A document from each line that opens one to the next; what stands before the first is one too."""
    draft = Draft(1, [])
    opened = False
    for block in stream:
        if not block.opens_document:
            draft.sentences.append(block)
            continue
        if opened or draft.sentences:
            yield draft
        draft, opened = Draft(block.line, []), True
    if opened or draft.sentences:
        yield draft


def split_by_count(stream: Iterator[Block], count: int) -> Iterator[Draft]:
    """A document from every ``count`` sentences; the last may have fewer."""
    sentences: list[Block] = []
    for block in stream:
        sentences.append(block)
        if len(sentences) == count:
            yield Draft(sentences[0].line, sentences)
            sentences = []
    if sentences:
        yield Draft(sentences[0].line, sentences)


def documents(drafts: Iterator[Draft], form: Form, *, path: Path, prefix: str) -> Iterator[Document | Reject]:
    """Drafts as documents ``prefix-0001``, ``prefix-0002``, ...; a rejected document keeps its number."""
    for number, draft in enumerate(drafts, 1):
        doc_id = f"{prefix}-{number:04d}"
        faults = [block.fault for block in draft.sentences if block.fault]
        if faults:
            yield Reject(str(path), faults[0].line, doc_id, faults[0].reason)
        elif not draft.sentences:
            yield Reject(str(path), draft.line, doc_id, "document has no tokens")
        else:
            yield _document(doc_id, draft.sentences, form)


def _document(doc_id: str, sentences: Sequence[Block], form: Form) -> Document:
    nested = {
        name: [[row[i] for row in block.rows] for block in sentences]
        for i, name in enumerate(form.columns)
        if name != SKIP
    }
    gold = nested.pop(LABELS, None)
    if gold is not None and form.scheme == "bio":
        gold = [iob1_to_bio(labels, [0]) for labels in gold]
    tokens = nested.pop(TOKENS)
    return Document.build(doc_id, tokens, labels=gold, **nested)


def id_prefix(name: str, given: str | None, *, alone: bool) -> str:
    """The start of a file's document ids: its name below the source, without a text suffix.

    A ``given`` prefix replaces it for a file that is ``alone``, and goes before it otherwise.
    """
    path = PurePosixPath(name)
    own = str(path.with_suffix("")) if path.suffix in SUFFIXES else name
    if given is None:
        return own
    return given if alone else given + own
