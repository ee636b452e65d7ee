"""Citations with fields, one document each: a token and its field a line, or a citation a line with tags.

Both forms of McCallum, Freitag & Pereira (2000). *Columns*: token, field and features, separated by
tabs, a blank line after each citation. *Tags*: ``<author> A. Name. </author> <title> ...``, one
citation a line. Every token has a field, so the labels are plain and not BIO.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from schemas.columns import LABELS, Reject
from schemas.document import TOKENS, Column, Document
from schemas.settings import CitationSettings
from workers.corpus.readers.lines import BYTE_ORDER_MARK, SKIP, Form, blocks, documents, id_prefix, split_by_count
from workers.corpus.readers.reader import source_files

FIELD = re.compile(r"\s*<([A-Za-z_]\w*)>(.*?)</\1>\s*")
TOKEN = re.compile(r"[\w'`/-]+|[^\w\s]")
"""Words keep hyphens, slashes and apostrophes; other marks stand alone, as in the column form."""


class _TagError(ValueError):
    """A line whose tags cannot be read."""


class _Field(NamedTuple):
    label: str
    text: str


def read_citations(source: str, settings: CitationSettings) -> Iterator[Document | Reject]:
    """Documents ``citation_dev-0001``, ... of a file or of all files of a folder.

    ``settings.form`` holds for all files; ``auto`` looks at the first: tags where its first line
    with text starts with ``<``. A tagged citation comes with its text and character offsets.
    """
    files = source_files(source)
    form = _form_of(files[0][0]) if settings.form == "auto" else settings.form
    for path, name in files:
        prefix = id_prefix(name, settings.prefix, alone=len(files) == 1)
        if form == "tags":
            yield from _tagged(path, prefix, gold=settings.gold)
        else:
            columns = Form((TOKENS, LABELS if settings.gold else SKIP, SKIP), "tab", "plain")
            yield from documents(split_by_count(blocks(path, columns), 1), columns, path=path, prefix=prefix)


def _form_of(path: Path) -> str:
    with path.open("rb") as file:
        lines = (line.removeprefix(BYTE_ORDER_MARK).strip() for line in file)
        return "tags" if next(filter(None, lines), b"").startswith(b"<") else "columns"


def _tagged(path: Path, prefix: str, *, gold: bool) -> Iterator[Document | Reject]:
    number = 0
    with path.open("rb") as file:
        for row, raw in enumerate(file, 1):
            line = raw.removeprefix(BYTE_ORDER_MARK) if row == 1 else raw
            if not line.strip():
                continue
            number += 1
            doc_id = f"{prefix}-{number:04d}"
            try:
                yield _document(doc_id, _fields(line.decode()), gold=gold)
            except UnicodeDecodeError as error:
                yield Reject(str(path), row, doc_id, f"line {row}: not valid UTF-8 at byte {error.start} of the line")
            except _TagError as error:
                yield Reject(str(path), row, doc_id, f"line {row}: {error}")


def _fields(line: str) -> list[_Field]:
    fields: list[_Field] = []
    at = 0
    while at < len(line):
        found = FIELD.match(line, at)
        if found is None:
            near = line[at : at + 20].strip()
            raise _TagError(f"no <field> ... </field> at character {at}, near {near!r}; want all text in fields")
        if FIELD.search(found[2]):
            raise _TagError(f"a field inside <{found[1]}>; fields must not nest")
        fields.append(_Field(found[1], found[2].strip()))
        at = found.end()
    return fields


def _document(doc_id: str, fields: list[_Field], *, gold: bool) -> Document:
    """The fields' tokens as one sentence; the text is the fields with a blank between them."""
    words: list[str] = []
    labels: list[str] = []
    places: list[tuple[int, int]] = []
    shift = 0
    for field in fields:
        for token in TOKEN.finditer(field.text):
            words.append(token[0])
            labels.append(field.label)
            places.append((shift + token.start(), shift + token.end()))
        shift += len(field.text) + 1
    if not words:
        raise _TagError("document has no tokens")
    bounds = np.array(places, np.int32)
    return Document(
        doc_id,
        np.zeros(1, np.int64),
        {TOKENS: Column.encode(words)},
        Column.encode(labels) if gold else None,
        " ".join(field.text for field in fields),
        np.ascontiguousarray(bounds[:, 0]),
        np.ascontiguousarray(bounds[:, 1]),
    )
