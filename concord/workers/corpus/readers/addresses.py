"""Addresses with fields, one document each: lines of ``text |label``, and a blank line after each address.

The form of S. Sarawagi's US addresses. Every token has a field, so the labels are plain and not BIO.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from concord.schemas.columns import Reject
from concord.schemas.document import Document
from concord.workers.corpus.readers.fields import Field, document_of_fields
from concord.workers.corpus.readers.lines import Line, id_prefix, line_groups, line_text
from concord.workers.corpus.readers.reader import (
    BadLineError,
    ReaderEntry,
    SourceForm,
    in_text,
    or_nothing,
    source_files,
)
from concord.workers.corpus.settings import AddressSettings

WORD_OR_COMMA = re.compile(r",|[^\s,](?:\S*[^\s,])?")
"""Tokens: words, and each comma around a word by itself; a comma inside a word, as in 1,200, is part of it."""
NO_BLANKS = re.compile(r"\S+")

WANTED = "want a field's text, a bar and its label, such as: Rose Lane, |3"


def read_addresses(source: str, settings: AddressSettings) -> Iterator[Document | Reject]:
    """Documents ``us50.dev.tagged-0001``, ... of a file or of all files of a folder, one sentence each."""
    files = source_files(source)
    for path, name in files:
        prefix = id_prefix(name, settings.prefix, alone=len(files) == 1)
        groups = enumerate(line_groups(path), 1)
        yield from or_nothing(path, (_address(path, f"{prefix}-{n:04d}", lines, settings) for n, lines in groups))


def _address(path: Path, doc_id: str, lines: Sequence[Line], settings: AddressSettings) -> Document | Reject:
    fields: list[Field] = []
    for line in lines:
        try:
            fields.append(_field(line_text(line, settings.encoding)))
        except BadLineError as error:
            return Reject(str(path), line.number, doc_id, f"line {line.number}: {error}")
    return document_of_fields(doc_id, fields, WORD_OR_COMMA if settings.split_marks else NO_BLANKS, gold=True)


def _field(line: str) -> Field:
    text, bar, label = (part.strip() for part in line.rpartition("|"))
    if not bar:
        raise BadLineError(f"no bar; {WANTED}")
    if not text or not label:
        raise BadLineError(f"no {'label after' if text else 'text before'} the bar; {WANTED}")
    if len(label.split()) > 1:
        raise BadLineError(f"label {label!r} has blanks; {WANTED}")
    return Field(label, text)


def _is_addresses(text: str) -> bool:
    lines = [line for line in text.splitlines() if line.strip()]
    # A field has no tab: features of citations in columns have bars, too.
    written = all(re.fullmatch(r"[^\t]*\S\s*\|\s*\S+\s*", line) for line in lines)
    return written and len({line.rpartition("|")[2].strip() for line in lines}) > 1


ADDRESSES_READER = ReaderEntry(
    read_addresses,
    AddressSettings,
    "addresses with fields: 'text |label' a line",
    forms=(SourceForm("lines of a field's text, a bar and its label", 260, in_text(_is_addresses)),),
)
