"""Citations with fields, one document each, in both forms of McCallum, Freitag & Pereira (2000).

- *Columns*: each line has a token, its field and features, separated by tabs; a blank line follows each citation.
- *Tags*: each line is a citation, ``<author> A. Name. </author> <title> ...``.

Every token has a field, so the labels are plain and not BIO.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from concord.schemas.columns import LABELS, Reject
from concord.schemas.document import TOKENS, Document
from concord.workers.corpus.readers.fields import Field, document_of_fields
from concord.workers.corpus.readers.lines import (
    PLAIN_FORM,
    SKIP,
    Form,
    blocks,
    documents,
    file_lines,
    id_prefix,
    line_text,
    split_by_count,
)
from concord.workers.corpus.readers.reader import (
    BadLineError,
    FileStart,
    ReaderEntry,
    SourceForm,
    in_text,
    or_nothing,
    source_files,
)
from concord.workers.corpus.settings import CitationSettings

FIELD = re.compile(r"\s*<([A-Za-z_]\w*)>(.*?)</\1>\s*")
TOKEN = re.compile(r"[\w'`/-]+|[^\w\s]")
"""Words keep hyphens, slashes and apostrophes; other marks stand alone, as in the column form."""

OTHER_COLUMNS = "a citation has token, field and features between tabs; the reader 'columns' takes other layouts"


def read_citations(source: str, settings: CitationSettings) -> Iterator[Document | Reject]:
    """Documents ``citation_dev-0001``, ... of a file or of all files of a folder.

    ``settings.form`` holds for all files; ``auto`` is tags where the first line with text starts
    with ``<``. A tagged citation comes with its text and character offsets.
    """
    files = source_files(source)
    form = _form_of([path for path, _ in files]) if settings.form == "auto" else settings.form
    for path, name in files:
        prefix = id_prefix(name, settings.prefix, alone=len(files) == 1)
        items = _tagged(path, prefix, settings) if form == "tags" else _columns(path, prefix, settings)
        yield from or_nothing(path, items)


def _form_of(paths: Sequence[Path]) -> Literal["tags", "columns"]:
    lines = (line.content.strip() for path in paths for line in file_lines(path))
    return "tags" if next(filter(None, lines), b"").startswith(b"<") else "columns"


def _columns(path: Path, prefix: str, settings: CitationSettings) -> Iterator[Document | Reject]:
    columns = (TOKENS, LABELS if settings.gold else SKIP, SKIP)
    form = Form(columns, "tab", PLAIN_FORM, settings.encoding, other_columns=OTHER_COLUMNS)
    return documents(split_by_count(blocks(path, form), 1), form, path=path, prefix=prefix)


def _tagged(path: Path, prefix: str, settings: CitationSettings) -> Iterator[Document | Reject]:
    filled = (line for line in file_lines(path) if line.content.strip())
    for number, line in enumerate(filled, 1):
        doc_id = f"{prefix}-{number:04d}"
        try:
            fields = _fields(line_text(line, settings.encoding))
            yield document_of_fields(doc_id, fields, TOKEN, gold=settings.gold)
        except BadLineError as error:
            yield Reject(str(path), line.number, doc_id, f"line {line.number}: {error}")


def _fields(line: str) -> list[Field]:
    fields: list[Field] = []
    at = 0
    while at < len(line):
        found = FIELD.match(line, at)
        if found is None:
            near = line[at : at + 20].strip()
            raise BadLineError(f"no <field> ... </field> at character {at}, near {near!r}; want all text in fields")
        if FIELD.search(found[2]):
            raise BadLineError(f"a field inside <{found[1]}>; fields must not nest")
        fields.append(Field(found[1], found[2].strip()))
        at = found.end()
    return fields


def _is_tagged_lines(text: str) -> bool:
    """Does the first line consist of fields, each in tags of its name?"""
    first = next(line for line in text.splitlines() if line.strip())
    return re.fullmatch(r"(\s*<([A-Za-z_]\w*)>(?:(?!</?\2>).)*</\2>\s*)+", first) is not None


def _is_table(start: FileStart) -> bool:
    return len(start.rows) > 1 and "\t" in start.lines[0]


TABLE_FORM = SourceForm("a table of columns between tabs", 310, _is_table)
CITATIONS_READER = ReaderEntry(
    read_citations,
    CitationSettings,
    "citations with fields: columns, or inline tags",
    forms=(SourceForm("lines of fields in inline tags", 250, in_text(_is_tagged_lines)), TABLE_FORM),
)
