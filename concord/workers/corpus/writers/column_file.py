"""A token a line, as the readers ``columns`` and ``conll`` take it."""

from __future__ import annotations

from collections.abc import Iterator

from concord.schemas.exported import ExportedDocument
from concord.workers.corpus.settings import ConllWriterSettings
from concord.workers.corpus.writers.writer import FormError, Piece

BOUNDARY_WORD = "-DOCSTART-"
NOTHING = "_"
NAMELESS_DOCUMENT = "-X- O O"
"""What follows the word in a line of CoNLL-2003 that opens a document."""


def write_conll(documents: Iterator[ExportedDocument], settings: ConllWriterSettings) -> Iterator[Piece]:
    """Token, columns that are passed on, and label between tabs; a blank line after each sentence.

    With marks the next column has the label of the model alone where it differs, and the last one the reason. A line of
    ``-DOCSTART-`` and the id opens each document; without ids, it is that of CoNLL-2003.
    """
    for document in documents:
        yield Piece("", _document(document, settings).encode())


def _document(document: ExportedDocument, settings: ConllWriterSettings) -> str:
    columns = {name: _of_tokens(document, name) for name in document.columns}
    rows = list(zip(document.tokens, *columns.values(), document.labels, strict=True))
    for row in rows:
        wrong = [value for value in row if not value or any(c in value for c in "\t\r\n") or value == BOUNDARY_WORD]
        if wrong or not row[0].strip():
            raise FormError(
                f"document {document.doc_id!r}: {(wrong or row)[0]!r} cannot stand in a column file; take another form"
            )
    starts = {start for start in document.sentence_starts if start}
    name = " ".join(document.doc_id.split()) if settings.ids else NAMELESS_DOCUMENT
    lines = [f"{BOUNDARY_WORD} {name}", ""] if settings.boundaries else []
    for place, row in enumerate(rows):
        lines += [""] if place in starts else []
        lines.append("\t".join([*row, *(_marks(document, place) if settings.marks else [])]))
    return "\n".join([*lines, "", ""])


def _of_tokens(document: ExportedDocument, name: str) -> list[str]:
    values = document.columns[name]
    if not isinstance(values, list) or len(values) != len(document.tokens):
        raise FormError(f"document {document.doc_id!r}: column {name!r} has no value for each token; take another form")
    return [NOTHING if value is None else str(value) for value in values]


def _marks(document: ExportedDocument, place: int) -> list[str]:
    before = document.labels_before[place]
    if before == document.labels[place]:
        return [NOTHING, NOTHING]
    return [before, document.why or NOTHING]
