"""Gold spans of characters turned into BIO labels of tokens; shared by the readers of mails and of abstracts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.document import Column, Document, SourceSpans
from concord.schemas.labels import OUTSIDE
from concord.workers.corpus.readers.text import batch_from_texts
from concord.workers.corpus.settings import MarkedTextSettings

EMPTY = "hold no token; left out"
WIDENED = "start or end inside a token; widened"
UNFIT = "start or end inside a token; left out"
CUT = "go on in the next sentence; left out"
OVERLAP = "share a token with another; left out"


class CharSpan(NamedTuple):
    """A typed span of the characters ``start`` to ``end`` (exclusive) of a text; ``line`` is its line in the file."""

    start: int
    end: int
    type: str
    line: int


class SpanFault(NamedTuple):
    """A span that token labels cannot express as it is, and the reason."""

    span: CharSpan
    reason: str


def marked_document(
    doc_id: str,
    text: str,
    spans: Sequence[CharSpan],
    settings: MarkedTextSettings,
    *,
    breaks: Sequence[int] | None = None,
) -> tuple[Document, list[SpanFault]]:
    """Document of a text with the labels of its spans, and the spans that do not fit the tokens, in their order.

    The document keeps the original spans, too.

    ``text`` must have a token. Sentences start at the first token after each character of ``breaks``, or by the
    tokenizer's rules. Among spans that share a token the longest is taken; among equally long ones the first.
    """
    whole = batch_from_texts([doc_id], [text], settings.cutting).document(0)
    assert whole.raw is not None
    _, start, end = whole.raw
    sentences = whole.sentence_starts
    if breaks is not None:
        sentences = np.unique(np.searchsorted(start, np.array([0, *breaks])))
        sentences = sentences[sentences < len(start)].astype(np.int64)
    labels = _MarkedLabels(start, end, sentences, [OUTSIDE] * len(start))
    by_length = sorted(spans, key=lambda span: (span.start - span.end, span))
    faults = [SpanFault(span, reason) for span in by_length if (reason := labels.mark(span, settings))]
    gold = SourceSpans.of([(span.start, span.end, span.type) for span in sorted(spans)])
    return replace(whole, sentence_starts=sentences, labels=Column.encode(labels.names), source_spans=gold), sorted(
        faults
    )


class _MarkedLabels(NamedTuple):
    """The labels of N tokens, which `mark` fills."""

    start: NDArray[np.int32]
    end: NDArray[np.int32]
    sentences: NDArray[np.int64]
    names: list[str]

    def mark(self, span: CharSpan, settings: MarkedTextSettings) -> str:
        """Labels the tokens of a span; returns why the span does not fit them, empty if it does."""
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
