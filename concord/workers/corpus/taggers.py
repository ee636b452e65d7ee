"""Answers of a tagger, read by any reader, and put on the tokens of a corpus as a layer (`schemas.layers`).

Answers find their document by its id, or else by its text, blanks aside: a tagger may have seen other blanks than the
corpus has, such as one between each two tokens. All answers are held in memory, the corpus is not. What cannot
be placed is counted by its reason and never guessed.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from concord.schemas.columns import STRINGS, Misfit, Notice, Reject
from concord.schemas.document import Document, TokenizedText
from concord.schemas.label_names import gold_label_set
from concord.schemas.labels import OUTSIDE
from concord.schemas.layers import LAYER_SPAN, NO_ANSWER, NO_GRADE, grade_of, layer_labels
from concord.schemas.settings import ReaderSettings
from concord.workers.corpus.readers.reader import BadLineError, ReaderItem
from concord.workers.corpus.readers.registry import READERS
from concord.workers.corpus.readers.span_files import (
    EVERYWHERE,
    MOVED,
    PlacedText,
    TextlessRecord,
    documents_of,
    read_answers_placed,
    read_spans,
)
from concord.workers.corpus.readers.span_places import HANGUL, NO_PLACE
from concord.workers.corpus.readers.span_shapes import MarkedText
from concord.workers.corpus.settings import SpansSettings

LOST = NO_PLACE
EMPTY = "hold no token"
INSIDE = "begin or end inside a token of the corpus"
PARTICLE = "end before the particle of a Korean word, which the layer shows whole"
HIDDEN = "share a token with a longer one, which the layer shows"
PARTS = "have several parts; taken as one"
UNSURE = "have an offset alone, in a text that is not in Unicode's form NFC, where tools count otherwise"
UNKNOWN = "answers to documents that the corpus does not have"
OTHER_TEXT = "answers to another text than the document of that id has"
SILENT = "records that say nothing of entities, not even that there are none"
SEVERAL = "documents whose text has several answers that differ, none with the document's id"


class AnswerSpan(NamedTuple):
    """A span of a tagger's answer: characters of the text that it saw (end exclusive), label, and how sure it was."""

    start: int
    end: int
    label: str
    score: float | None = None
    alignment: str | None = None


class TaggerAnswer(NamedTuple):
    """A tagger's answer to one document: the text that it saw, and its spans in order."""

    doc_id: str
    text: str
    spans: tuple[AnswerSpan, ...]


class PlacedSpan(NamedTuple):
    """A span of a tagger's answer on the tokens of a document.

    - ``span``: as it came
    - ``first``, ``last``: its tokens, end exclusive; None where it has no place among them
    - ``label``: the user's name for its label
    """

    span: AnswerSpan
    first: int | None
    last: int | None
    label: str


class LayerArrays(NamedTuple):
    """The columns of a layer for D documents, in the order of `schemas.layers.layer_columns`."""

    labels: pa.Array
    grades: pa.Array
    spans: pa.Array


@dataclass
class ImportTally:
    """Counts of an import.

    - ``documents``, ``answered``: documents of the corpus, and those with an answer.
    - ``labels``: spans by the tagger's label; spans that have no place among the tokens count, too.
    - ``unplaced``: spans that the labels of tokens do not show, by reason.
    - ``unused``: answers, or documents, that did not find each other, by reason.
    - ``rejects``: records of the source that could not be read.
    """

    documents: int = 0
    answered: int = 0
    labels: Counter[str] = field(default_factory=Counter)
    unplaced: Counter[str] = field(default_factory=Counter)
    unused: Counter[str] = field(default_factory=Counter)
    rejects: list[Reject] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)


def read_answers(
    form: str, source: str, settings: ReaderSettings, tally: ImportTally
) -> Iterator[TaggerAnswer | TextlessRecord]:
    """The answers of a source, by the reader ``form``; what cannot be read goes into ``tally``.

    Raises the errors of the reader.
    """
    items: Iterable[ReaderItem | PlacedText | TextlessRecord] = READERS[form].read(source, settings)
    # The reader of spans knows scores, which documents do not have.
    if READERS[form].read is read_spans and isinstance(settings, SpansSettings):
        items = read_answers_placed(source, settings)
    for item in items:
        if isinstance(item, PlacedText) and item.found.tokens is None:
            yield _of_text(item.doc_id, item.found, tally)
        elif isinstance(item, TextlessRecord):
            yield item
        elif isinstance(item, PlacedText):
            assert isinstance(settings, SpansSettings)
            yield from (_of_document(one) for one in documents_of(item, settings) if isinstance(one, Document))
        elif isinstance(item, Document) and item.labels is None:
            tally.unused[SILENT] += 1
        elif isinstance(item, Document):
            yield _of_document(item)
        elif isinstance(item, Reject):
            tally.rejects.append(item)
        elif not isinstance(item, Misfit):
            tally.notices.append(item)


def _of_text(doc_id: str, marked: MarkedText, tally: ImportTally) -> TaggerAnswer:
    spans = list[AnswerSpan]()
    for span in marked.spans:
        assert span.start is not None
        assert span.end is not None
        spans.append(AnswerSpan(span.start, span.end, span.type, span.score, span.alignment))
        tally.unplaced[PARTS] += span.parts > 1
    tally.unplaced.update(span.reason for span in marked.lost)
    return TaggerAnswer(doc_id, marked.text, _ordered(spans))


def _of_document(document: Document) -> TaggerAnswer:
    if document.raw is not None and document.source_spans is not None:
        own = document.source_spans
        spans = map(AnswerSpan, own.start.tolist(), own.end.tolist(), own.type.strings())
        return TaggerAnswer(document.doc_id, document.raw.content, _ordered(spans))
    text, start, end = TokenizedText.of_words(document.tokens) if document.raw is None else document.raw
    assert document.labels is not None
    names = document.labels.strings()
    labels = gold_label_set(set(names), plain=document.labels.plain)
    ranges = labels.spans(labels.encode(names), document.sentence_starts)
    kinds = [labels.types[i] for i in ranges.type.tolist()]
    return TaggerAnswer(
        document.doc_id,
        text,
        _ordered(map(AnswerSpan, start[ranges.start].tolist(), end[ranges.end - 1].tolist(), kinds)),
    )


def _ordered(spans: Iterable[AnswerSpan]) -> tuple[AnswerSpan, ...]:
    return tuple(sorted(dict.fromkeys(spans), key=lambda span: (span.start, span.end, span.label)))


class TaggerAnswers:
    """All answers of a source, looked up by document.

    - ``tally``: what is counted on the way.
    - ``names``: the user's name for a label of the tagger; `OUTSIDE` leaves its spans out of the tokens' labels.
    """

    def __init__(
        self, answers: Iterable[TaggerAnswer | TextlessRecord], tally: ImportTally, names: Mapping[str, str]
    ) -> None:
        whole = list(answers)
        self._answers = [answer for answer in whole if isinstance(answer, TaggerAnswer)]
        self._textless = {answer.doc_id: answer for answer in whole if isinstance(answer, TextlessRecord)}
        self._tally, self._names = tally, names
        self._by_id = {answer.doc_id: i for i, answer in enumerate(self._answers)}
        self._by_text: dict[bytes, list[int]] = {}
        for i, answer in enumerate(self._answers):
            self._by_text.setdefault(_digest(_solid(answer.text)), []).append(i)
            tally.labels.update(span.label for span in answer.spans)
        self._used: set[int] = set()
        self._placed: set[str] = set()

    def __len__(self) -> int:
        return len(self._answers) + len(self._textless)

    def layer(self, documents: Sequence[Document | None]) -> LayerArrays:
        """The layer of some documents; null for a row that is no document."""
        rows = [(None, None, None) if document is None else self._row(document) for document in documents]
        labels, grades, spans = ([row[i] for row in rows] for i in range(3))
        return LayerArrays(pa.array(labels, STRINGS), pa.array(grades, STRINGS), pa.array(spans, pa.list_(LAYER_SPAN)))

    def end(self) -> None:
        """Counts the answers that no document has taken."""
        self._tally.unused[UNKNOWN] += len(self) - len(self._used) - len(self._placed)

    def _row(self, document: Document) -> tuple[list[str], list[str], list[dict[str, object]] | None]:
        answer = self.placed(document)
        if answer is None:
            return [NO_ANSWER] * len(document), [NO_GRADE] * len(document), None
        graded = [(a, b, label, grade_of(span.score, span.alignment)) for a, b, label, span in on_tokens(answer)]
        labels, grades, hidden = layer_labels(len(document), graded)
        self._tally.unplaced[HIDDEN] += hidden
        return labels, grades, [_stored(*one[:3]) for one in answer]

    def placed(self, document: Document) -> list[PlacedSpan] | None:
        """The answer to a document, on its tokens; None where there is none. Counts it, and what has no place."""
        self._tally.documents += 1
        solid, start, end = _solid_tokens(document)
        answer = self._find(document.doc_id, _digest(solid)) or self._by_its_id(document)
        if answer is None:
            return None
        self._tally.answered += 1
        before = _solid_before(answer.text)
        placed = list[PlacedSpan]()
        for span in answer.spans:
            tokens = self._place(int(before[span.start]), int(before[span.end]), solid, start, end)
            first, last = (None, None) if tokens is None else tokens
            placed.append(PlacedSpan(span, first, last, self._names.get(span.label, span.label)))
        return placed

    def _find(self, doc_id: str, digest: bytes) -> TaggerAnswer | None:
        same = self._by_text.get(digest, [])
        own = self._by_id.get(doc_id)
        if own is not None and own in same:
            self._used.add(own)
            return self._answers[own]
        if not same:
            if own is not None:
                self._used.add(own)
                self._tally.unused[OTHER_TEXT] += 1
            return None
        self._used.update(same)
        if len({self._answers[i].spans for i in same}) > 1:
            self._tally.unused[SEVERAL] += 1
            return None
        return self._answers[same[0]]

    def _by_its_id(self, document: Document) -> TaggerAnswer | None:
        """The answer whose record has the document's id and no text, put on the document's."""
        record = self._textless.get(document.doc_id)
        if record is None:
            return None
        self._placed.add(document.doc_id)
        text = TokenizedText.of_words(document.tokens)[0] if document.raw is None else document.raw.content
        try:
            marked = record.placed(text)
        except BadLineError as error:
            reject = Reject(str(record.path), record.line, record.doc_id, f"line {record.line}: {error}")
            self._tally.rejects.append(reject)
            return None
        if not unicodedata.is_normalized("NFC", text):
            self._tally.unplaced[UNSURE] += sum(span.words is None for span in marked.spans)
            marked = marked._replace(spans=[span for span in marked.spans if span.words is not None])
        if any(span.anywhere for span in marked.spans):
            self._tally.notices.append(Notice(str(record.path), EVERYWHERE))
        self._tally.unplaced[MOVED] += sum(span.moved for span in marked.spans)
        answer = _of_text(record.doc_id, marked, self._tally)
        self._tally.labels.update(span.label for span in answer.spans)
        return answer

    def _place(
        self, first: int, last: int, solid: str, start: NDArray[np.int64], end: NDArray[np.int64]
    ) -> tuple[int, int] | None:
        """The tokens of a span of solid characters; None, counted by its reason, where they are not whole."""
        left, right = int(np.searchsorted(end, first, "right")), int(np.searchsorted(start, last))
        if first >= last or left >= right:
            self._tally.unplaced[EMPTY] += 1
            return None
        if start[left] >= first and end[right - 1] > last and _is_korean(solid[last - 1 : end[right - 1]]):
            self._tally.unplaced[PARTICLE] += 1
            return left, right
        if start[left] < first or end[right - 1] > last:
            self._tally.unplaced[INSIDE] += 1
            return None
        return left, right


def _is_korean(text: str) -> bool:
    return all(HANGUL[0] <= character <= HANGUL[1] for character in text)


def on_tokens(answer: Sequence[PlacedSpan]) -> list[tuple[int, int, str, AnswerSpan]]:
    """The spans of an answer that have a place and that the user has not left out: tokens, label, and what came."""
    return [
        (one.first, one.last, one.label, one.span)
        for one in answer
        if one.first is not None and one.last is not None and one.label != OUTSIDE
    ]


def _stored(span: AnswerSpan, first: int | None, last: int | None) -> dict[str, object]:
    return {
        "label": span.label,
        "char_start": span.start,
        "char_end": span.end,
        "score": span.score,
        "alignment": span.alignment,
        "start": first,
        "end": last,
    }


# Solid text: without its blanks


def _solid(text: str) -> str:
    return "".join(text.split())


def _digest(solid: str) -> bytes:
    return hashlib.blake2b(solid.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _solid_before(text: str) -> NDArray[np.int64]:
    """(C + 1,) number of characters other than blanks before each place of a text."""
    solid = np.fromiter((not character.isspace() for character in text), np.int64, len(text))
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(solid)])


def _solid_tokens(document: Document) -> tuple[str, NDArray[np.int64], NDArray[np.int64]]:
    """The document's text without blanks, and first and last (exclusive) character of each token in it."""
    if document.raw is not None:
        before = _solid_before(document.raw.content)
        return _solid(document.raw.content), before[document.raw.start], before[document.raw.end]
    words = [_solid(token) for token in document.tokens]
    end = np.cumsum([len(word) for word in words]).astype(np.int64)
    return "".join(words), np.concatenate([np.zeros(1, np.int64), end[:-1]]), end
