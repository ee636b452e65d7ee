"""Texts with gold spans of characters, as tokens with BIO labels: what the readers of mails and abstracts share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.document import TOKENS, Column, Document
from schemas.labels import OUTSIDE
from schemas.settings import MarkedTextSettings
from workers.corpus.readers.text import batch_from_texts

HYPHENS = re.compile(r"-+|[^-]+")

EMPTY = "hold no token; left out"
WIDENED = "start or end inside a token; widened"
UNFIT = "start or end inside a token; left out"
CUT = "go on in the next sentence; left out"
OVERLAP = "share a token with another; left out"


class CharSpan(NamedTuple):
    """Characters ``start`` to ``end`` (exclusive) of a text have a type; ``line`` is where the file says so."""

    start: int
    end: int
    type: str
    line: int


class Fault(NamedTuple):
    """A span that labels cannot say as it is, and why."""

    span: CharSpan
    reason: str


def marked_document(
    doc_id: str,
    text: str,
    spans: Sequence[CharSpan],
    settings: MarkedTextSettings,
    *,
    breaks: Sequence[int] | None = None,
) -> tuple[Document, list[Fault]]:
    """The tokens of a text with the labels of its spans, and the spans that do not fit, in their order.

    ``text`` has a token. Sentences start at the first token from each character of ``breaks`` on, or where the
    tokenizer says. Of spans that share a token the longest is taken, and the first of those.
    """
    whole = batch_from_texts([doc_id], [text], settings.tokenizer).document(0)
    assert whole.token_start is not None
    assert whole.token_end is not None
    first = whole.token_start[whole.sentence_starts] if breaks is None else np.array(breaks, np.int64)
    start, end = whole.token_start, whole.token_end
    if settings.split_hyphens:
        start, end = _cut_at_hyphens(text, start, end)
    sentences = np.unique(np.searchsorted(start, np.append(first, 0)))
    sentences = sentences[sentences < len(start)].astype(np.int64)
    labels = _Labels(start, end, sentences, [OUTSIDE] * len(start))
    by_length = sorted(spans, key=lambda span: (span.start - span.end, span))
    faults = [Fault(span, reason) for span in by_length if (reason := labels.mark(span, settings))]
    words = [text[a:b] for a, b in zip(start.tolist(), end.tolist(), strict=True)]
    document = Document(
        doc_id, sentences, {TOKENS: Column.encode(words)}, Column.encode(labels.names), text, start, end
    )
    return document, sorted(faults)


def _cut_at_hyphens(
    text: str, start: NDArray[np.int32], end: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Starts and ends of the tokens, with hyphens and what is between them as tokens of their own."""
    places = zip(start.tolist(), end.tolist(), strict=True)
    pieces = [found.span() for a, b in places for found in HYPHENS.finditer(text, a, b)]
    bounds = np.array(pieces, np.int32)
    return np.ascontiguousarray(bounds[:, 0]), np.ascontiguousarray(bounds[:, 1])


class _Labels(NamedTuple):
    """The labels of N tokens, which `mark` fills."""

    start: NDArray[np.int32]
    end: NDArray[np.int32]
    sentences: NDArray[np.int64]
    names: list[str]

    def mark(self, span: CharSpan, settings: MarkedTextSettings) -> str:
        """Labels the tokens of a span if that can be; why it does not fit, or nothing."""
        first, last = int(np.searchsorted(self.end, span.start, "right")), int(np.searchsorted(self.start, span.end))
        if first >= last or span.start == span.end:
            return EMPTY
        fits = bool(self.start[first] >= span.start and self.end[last - 1] <= span.end)
        if not fits and settings.unfit == "drop":
            return UNFIT
        if np.any((self.sentences > first) & (self.sentences < last)):
            return CUT
        if any(name != OUTSIDE for name in self.names[first:last]):
            return OVERLAP
        self.names[first:last] = [f"B-{span.type}", *[f"I-{span.type}"] * (last - first - 1)]
        return "" if fits else WIDENED
