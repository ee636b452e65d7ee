"""Contract tests of writers, on made-up documents with texts of all kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import PurePosixPath

import numpy as np

from concord.schemas.exported import Change, ExportedDocument, ExportedSpan, Reason
from concord.testing.expect import expect, expect_same
from concord.workers.corpus.writers.writer import Piece, WriterEntry

MADE_WORDS = ("Ann", "Oslo", "😀", "e\u0301a", "नमस्ते", "word", "12", "&", '"so"')
MADE_GAPS = (" ", "  ", "\r\n", "\n", "\u00a0", "")
MADE_TYPES = ("PER", "LOC")


def check_writer(entry: WriterEntry) -> None:
    """Runs all `WRITER_CHECKS`. Raises `AssertionError` at a broken promise."""
    for check in WRITER_CHECKS:
        check(entry)


def made_document(seed: int, doc_id: str | None = None) -> ExportedDocument:
    """A document with random words, blanks and spans, of which some were changed."""
    rng = np.random.default_rng(seed)
    words = [MADE_WORDS[i] for i in rng.integers(len(MADE_WORDS), size=rng.integers(1, 9))]
    text, start, end = "", list[int](), list[int]()
    for word in words:
        gap = MADE_GAPS[rng.integers(len(MADE_GAPS))] if text else ""
        text += gap
        start.append(len(text))
        text += word
        end.append(len(text))
    alone, answer = (_random_spans(len(words), rng) for _ in range(2))
    raw = text, start, end
    spans = [_span(raw, place, kind, alone) for place, kind in answer.items()]
    removed = [
        _span(raw, place, kind, alone)._replace(change=Change.REMOVED)
        for place, kind in alone.items()
        if place not in answer
    ]
    changed = alone != answer
    return ExportedDocument(
        doc_id or f"d-{seed}",
        text,
        words,
        start,
        end,
        [0],
        _labels(len(words), answer),
        _labels(len(words), alone),
        spans,
        removed,
        [Reason("names agree", 2.5), Reason("legal", float("inf"))] if changed else [],
        {},
    )


TokenRange = tuple[int, int]


def _random_spans(tokens: int, rng: np.random.Generator) -> dict[TokenRange, str]:
    spans: dict[TokenRange, str] = {}
    at = 0
    while at < tokens:
        length = int(rng.integers(1, 4))
        if rng.random() < 0.5 and at + length <= tokens:
            spans[at, at + length] = MADE_TYPES[rng.integers(len(MADE_TYPES))]
        at += length
    return spans


def _span(
    raw: tuple[str, Sequence[int], Sequence[int]], place: TokenRange, kind: str, alone: dict[TokenRange, str]
) -> ExportedSpan:
    text, start, end = raw
    first, last = start[place[0]], end[place[1] - 1]
    before = alone.get(place)
    change = Change.KEPT if before == kind else Change.ADDED if before is None else Change.RETYPED
    return ExportedSpan(*place, first, last, kind, text[first:last], change, before)


def _labels(tokens: int, spans: dict[TokenRange, str]) -> list[str]:
    labels = ["O"] * tokens
    for (start, end), kind in spans.items():
        labels[start:end] = [f"B-{kind}", *[f"I-{kind}"] * (end - start - 1)]
    return labels


def written(entry: WriterEntry, documents: Sequence[ExportedDocument], **options: object) -> dict[str, bytes]:
    """The files of documents, by their names."""
    pieces = list(entry.write(iter(documents), entry.settings.model_validate(options)))
    return {name: b"".join(piece.content for piece in own) for name, own in groupby(pieces, _name)}


def _name(piece: Piece) -> str:
    return piece.name


def the_same_documents_give_the_same_bytes(entry: WriterEntry) -> None:
    """Equal documents give equal files."""
    documents = [made_document(seed) for seed in range(20)]
    expect_same(written(entry, documents), written(entry, documents), "files of the same documents")


def no_documents_are_no_error(entry: WriterEntry) -> None:
    """A run without documents can be written."""
    expect(len(written(entry, [])) <= 1, "at most one file without documents")


def files_lie_below_the_folder(entry: WriterEntry) -> None:
    """One file has no name; those of a folder lie in it, whatever documents are called."""
    names = ("a", "b/c", "../d", "/e", ".f", "g\\h", "CON.", "i j", "%2F", "k/../l", "//")
    files = written(entry, [made_document(seed, name) for seed, name in enumerate(names)])
    for name in files:
        path = PurePosixPath(name)
        expect(bool(name) == entry.folder, f"a name where there are several files, not {name!r}")
        expect(not path.is_absolute() and ".." not in path.parts, f"{name!r} below the folder")
    expect(not entry.folder or len(files) == 2 * len(names), "files of their own for each document")


def nothing_is_marked_unless_asked_for(entry: WriterEntry) -> None:
    """Without marks, documents with other changes give the same bytes."""
    documents = [made_document(seed) for seed in range(20)]
    others = [
        document._replace(
            labels_before=document.labels,
            removed=[],
            reasons=[],
            spans=[span._replace(change=Change.KEPT, before=span.type) for span in document.spans],
        )
        for document in documents
    ]
    expect_same(written(entry, documents, marks=False), written(entry, others, marks=False), "files without marks")
    expect(written(entry, documents) != written(entry, others), "marks at what changed")


def documents_are_taken_one_by_one(entry: WriterEntry) -> None:
    """A writer asks for each document once, in order."""
    taken = list[str]()

    def documents() -> Iterator[ExportedDocument]:
        for seed in range(5):
            taken.append(f"d-{seed}")
            yield made_document(seed)

    list(entry.write(documents(), entry.settings()))
    expect_same(taken, [f"d-{seed}" for seed in range(5)], "documents that were taken")


WRITER_CHECKS: tuple[Callable[[WriterEntry], None], ...] = (
    the_same_documents_give_the_same_bytes,
    no_documents_are_no_error,
    files_lie_below_the_folder,
    nothing_is_marked_unless_asked_for,
    documents_are_taken_one_by_one,
)
"""The single checks, each a function of an entry."""
