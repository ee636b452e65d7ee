"""A writer: a line a span, with bars between document, label and words."""

from collections.abc import Iterator

from concord.parts import Change, ExportedDocument, Piece, WriterEntry, WriterSettings


def write(documents: Iterator[ExportedDocument], settings: WriterSettings) -> Iterator[Piece]:
    """A star stands at what the constraints changed."""
    for document in documents:
        for span in document.spans:
            star = "*" if settings.marks and span.change is not Change.KEPT else ""
            words = " ".join(span.text.split())
            yield Piece("", f"{document.doc_id}|{span.type}{star}|{words}\n".encode())


BARS = WriterEntry(write, WriterSettings, "a line a span, with bars between document, label and words")
