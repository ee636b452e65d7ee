"""A table of spans, one a row, for spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

from concord.schemas.exported import Change, ExportedDocument
from concord.schemas.settings import WriterSettings
from concord.workers.corpus.writers.writer import FormError, Piece

NAMES = ("doc_id", "start", "end", "label", "text")
MARK_NAMES = ("change", "before", "why")


def write_csv(documents: Iterator[ExportedDocument], settings: WriterSettings) -> Iterator[Piece]:
    """Id, characters, label and words of each span, its change and why, and the columns that are passed on.

    A span that only the model alone has is a row without a label; a document without spans has no row.
    """
    names: list[str] | None = None
    for document in documents:
        if names is None:
            names = [*NAMES, *(MARK_NAMES if settings.marks else ()), *document.columns]
            if len(set(names)) < len(names):
                raise FormError("a column that is passed on has the name of one of the form; rename it in the corpus")
            yield _row(names)
        spans = [*document.spans, *(document.removed if settings.marks else ())]
        for span in sorted(spans, key=lambda span: (span.start, span.end)):
            changed = span.change is not Change.KEPT
            label = "" if span.change is Change.REMOVED else span.type
            marks = [str(span.change), span.before or "", document.why if changed else ""]
            values = [document.doc_id, span.first, span.last, label, span.text]
            yield _row([*values, *(marks if settings.marks else ()), *document.columns.values()])


def _row(values: list[Any]) -> Piece:
    line = io.StringIO()
    csv.writer(line, lineterminator="\r\n").writerow(values)
    return Piece("", line.getvalue().encode())
