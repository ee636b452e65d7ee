"""brat's standoff files: a text and its annotations, two files a document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote

from concord.schemas.exported import Change, ExportedDocument, ExportedSpan
from concord.schemas.settings import WriterSettings
from concord.workers.corpus.writers.writer import FormError, Piece


def write_brat(documents: Iterator[ExportedDocument], settings: WriterSettings) -> Iterator[Piece]:
    """``ID.txt`` and ``ID.ann`` of each document; a note at a span says what was changed, and why.

    Columns that are passed on stand in ``ID.json``. Characters of an id that cannot be in a file's name are written
    as ``%2F`` and the like.
    """
    for document in documents:
        name = _name(document.doc_id)
        yield Piece(f"{name}.txt", document.text.encode())
        yield Piece(f"{name}.ann", _annotations(document, settings).encode())
        if document.columns:
            yield Piece(f"{name}.json", json.dumps(dict(document.columns), ensure_ascii=False, default=str).encode())


def _name(doc_id: str) -> str:
    """A file's name below a folder; folders in the id stay where they lead below it."""
    parts = doc_id.split("/")
    safe = all(part.strip(". ") and not part.startswith((".", "_")) for part in parts)
    return quote(doc_id, safe="/ " if safe else " ")


def _annotations(document: ExportedDocument, settings: WriterSettings) -> str:
    lines: list[str] = []
    notes = 0
    for number, span in enumerate(document.spans, 1):
        if len(span.type.split()) != 1 or ";" in span.type:
            raise FormError(
                f"document {document.doc_id!r}: type {span.type!r} cannot stand in brat, which has no blanks"
            )
        lines.append(f"T{number}\t{span.type} {_parts(span)}\t{' '.join(_pieces(span))}")
        if settings.marks and span.change is not Change.KEPT:
            notes += 1
            lines.append(f"#{notes}\tAnnotatorNotes T{number}\t{document.note(span)}")
    return "".join(f"{line}\n" for line in lines)


def _pieces(span: ExportedSpan) -> list[str]:
    return [piece for piece in span.text.replace("\r", "\n").split("\n") if piece]


def _parts(span: ExportedSpan) -> str:
    """The characters of a span; brat wants a part a line."""
    parts: list[str] = []
    at = 0
    for piece in _pieces(span):
        start = span.text.index(piece, at)
        at = start + len(piece)
        parts.append(f"{span.first + start} {span.first + at}")
    return ";".join(parts)
