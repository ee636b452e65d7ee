"""Answers of a tagger, read by any reader, and put on the tokens of a corpus as a layer (`schemas.layers`).

Answers find their document by its id, or else by its text, blanks aside: a tagger may have seen other blanks than the
corpus has, such as one between each two tokens. All answers are held in memory, the corpus is not. What cannot
be placed is counted by its reason and never guessed.
"""

from __future__ import annotations

import hashlib
import math
import unicodedata
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from concord.schemas.columns import STRINGS, Misfit, Notice, Reject
from concord.schemas.document import Document, TokenizedText
from concord.schemas.label_names import gold_label_set
from concord.schemas.labels import OUTSIDE
from concord.schemas.layers import (
    LAYER_SPAN,
    NO_ANSWER,
    NO_GRADE,
    candidate_values,
    grade_of,
    layer_labels,
    shown_spans,
)
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
HIDDEN = "share a token with a longer or surer one, which the layer shows"
PARTS = "have several parts; taken as one"
UNSURE = "have an offset alone, in a text that is not in Unicode's form NFC, where tools count otherwise"
UNKNOWN = "answers to documents that the corpus does not have"
OTHER_TEXT = "answers to another text than the document of that id has"
SILENT = "records that say nothing of entities, not even that there are none"
MERGED = "stand in several answers to one text, and are one"
AT_EDGE = "end where a window of the text does, inside a span of another window"
BEYOND = "leave their sentence, so no candidates"
SEVERAL = "documents whose text has several answers that differ, none with the document's id"


class AnswerSpan(NamedTuple):
    """A span of a tagger's answer: characters of the text that it saw (end exclusive), label, and how sure it was."""

    start: int
    end: int
    label: str
    score: float | None = None
    alignment: str | None = None

    @property
    def sureness(self) -> float:
        """The score; 0 for none, and for one that is no number."""
        return 0.0 if self.score is None or math.isnan(self.score) else self.score


class TaggerAnswer(NamedTuple):
    """A tagger's answer to one document: the text that it saw, its spans in order, and the file, where it is known."""

    doc_id: str
    text: str
    spans: tuple[AnswerSpan, ...]
    path: Path | None = None


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


SpanOnTokens = tuple[int, int, str, AnswerSpan]
"""First token, token after the last, the user's name for its label, and the span as it came."""

UNSEEN_RUNS = 0.5
"""Runs that have given nothing, added to those that there are: a span of five runs in five has odds of 10 to 1."""


class Reading(StrEnum):
    """What the answers of a source are.

    - ``ANSWERS``: one answer to a document.
    - ``CANDIDATES``: spans with scores that may overlap; several answers to a document are its windows, or lists.
    - ``SAMPLES``: several runs of one program, whose share is the score of a span; they are candidates, too.
    """

    ANSWERS = "answers"
    CANDIDATES = "candidates"
    SAMPLES = "samples"


@dataclass
class ImportTally:
    """Counts of an import.

    - ``documents``, ``answered``: documents of the corpus, and those with an answer.
    - ``labels``: spans by the tagger's label; spans that have no place among the tokens count, too.
    - ``lost``: spans that cannot be read, or have no place in the text.
    - ``unplaced``: spans that the labels of tokens do not show, by reason.
    - ``unused``: answers, or documents, that did not find each other, by reason.
    - ``rejects``: records of the source that could not be read.
    """

    documents: int = 0
    answered: int = 0
    labels: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    unplaced: Counter[str] = field(default_factory=Counter)
    unused: Counter[str] = field(default_factory=Counter)
    rejects: list[Reject] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    @property
    def spans(self) -> int:
        """All spans of the answers that were read."""
        return self.labels.total() + self.lost

    def count_lost(self, reasons: Iterable[str]) -> None:
        """Counts spans that are lost, a reason each."""
        counts = Counter(reasons)
        self.unplaced.update(counts)
        self.lost += counts.total()


def read_answers(
    form: str, source: str, settings: ReaderSettings, tally: ImportTally, reading: Reading = Reading.ANSWERS
) -> Iterator[TaggerAnswer | TextlessRecord]:
    """The answers of a source, by the reader ``form``; what cannot be read goes into ``tally``.

    Raises the errors of the reader.
    """
    scored = reading is Reading.CANDIDATES
    items: Iterable[ReaderItem | PlacedText | TextlessRecord] = READERS[form].read(source, settings)
    # The reader of spans knows scores, which documents do not have.
    if READERS[form].read is read_spans and isinstance(settings, SpansSettings):
        items = read_answers_placed(source, settings, repeated=reading is not Reading.ANSWERS)
    for item in items:
        if scored and isinstance(item, PlacedText) and (fault := score_fault(item.found)):
            tally.rejects.append(Reject(str(item.path), item.line, item.doc_id, f"line {item.line}: {fault}"))
        elif isinstance(item, PlacedText) and item.found.tokens is None:
            yield _of_text(item.doc_id, item.found, item.path, tally)
        elif isinstance(item, TextlessRecord):
            yield item
        elif isinstance(item, PlacedText):
            assert isinstance(settings, SpansSettings)
            tally.count_lost(span.reason for span in item.found.lost)
            documents = (one for one in documents_of(item, settings) if isinstance(one, Document))
            yield from (_of_document(one)._replace(path=item.path) for one in documents)
        elif isinstance(item, Document) and item.labels is None:
            tally.unused[SILENT] += 1
        elif isinstance(item, Document):
            yield _of_document(item)
        elif isinstance(item, Reject):
            tally.rejects.append(item)
        elif not isinstance(item, Misfit):
            tally.notices.append(item)


def score_fault(marked: MarkedText) -> str:
    """What is wrong with the score of the first span that has no probability; empty if all have one."""
    for number, span in enumerate(marked.spans, 1):
        if span.score is None or not 0.0 <= span.score <= 1.0:
            there = "no score" if span.score is None else f"score {span.score}"
            return (
                f"span {number} ({span.type} from {span.start}) has {there}; want 'score' from 0 to 1 for a candidate"
            )
    return ""


def _of_text(doc_id: str, marked: MarkedText, path: Path, tally: ImportTally) -> TaggerAnswer:
    spans = list[AnswerSpan]()
    for span in marked.spans:
        assert span.start is not None
        assert span.end is not None
        spans.append(AnswerSpan(span.start, span.end, span.type, span.score, span.alignment))
        tally.unplaced[PARTS] += span.parts > 1
    tally.count_lost(span.reason for span in marked.lost)
    return TaggerAnswer(doc_id, marked.text, _ordered(spans), path)


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


class _AnswerPart(NamedTuple):
    """An answer, the place of its text in the document's, blanks aside, and which run of the program gave it."""

    answer: TaggerAnswer
    low: int = 0
    run: Hashable = None


class _PlacedPart(NamedTuple):
    """The spans of an answer on tokens, the numbers of those that touch an end of a part of the text, and its run."""

    spans: list[PlacedSpan]
    cut: set[int]
    run: Hashable


_Place = tuple[int, int, str]
"""First token, token after the last, label."""
_SolidTokens = tuple[str, NDArray[np.int64], NDArray[np.int64]]


def _lies_in(one: _Place, other: _Place) -> bool:
    return one != other and one[2] == other[2] and other[0] <= one[0] and one[1] <= other[1]


class TaggerAnswers:
    """All answers of a source, looked up by document.

    - ``tally``: what is counted on the way.
    - ``names``: the user's name for a label of the tagger; `OUTSIDE` leaves its spans out of the tokens' labels.
    - ``reading``: what the answers are.
    """

    def __init__(
        self,
        answers: Iterable[TaggerAnswer | TextlessRecord],
        tally: ImportTally,
        names: Mapping[str, str],
        reading: Reading = Reading.ANSWERS,
    ) -> None:
        whole = list(answers)
        self._answers = [answer for answer in whole if isinstance(answer, TaggerAnswer)]
        self._textless = dict[str, list[TextlessRecord]]()
        for record in (answer for answer in whole if isinstance(answer, TextlessRecord)):
            self._textless.setdefault(record.doc_id, []).append(record)
        self._count = len(whole)
        self._in_files = len({answer.path for answer in whole}) > 1
        self._tally, self._names, self.reading = tally, names, reading
        self._by_id = dict[str, list[int]]()
        self._by_text = dict[bytes, list[int]]()
        for i, answer in enumerate(self._answers):
            self._by_id.setdefault(answer.doc_id, []).append(i)
            self._by_text.setdefault(_digest(_solid(answer.text)), []).append(i)
            tally.labels.update(span.label for span in answer.spans)
        self._used: set[int] = set()
        self._placed = Counter[str]()

    def __len__(self) -> int:
        return self._count

    def layer(self, documents: Sequence[Document | None]) -> list[pa.Array]:
        """The columns of the layer for some documents, as `schemas.layers.with_layers` takes them; null for a row that
        is no document."""
        types = [STRINGS, STRINGS, pa.list_(LAYER_SPAN), STRINGS][: 3 if self.reading is Reading.ANSWERS else 4]
        rows = [[None] * len(types) if document is None else self._row(document) for document in documents]
        return [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(types)]

    def end(self) -> None:
        """Counts the answers that no document has taken."""
        self._tally.unused[UNKNOWN] += len(self) - len(self._used) - self._placed.total()

    def _row(self, document: Document) -> Sequence[object]:
        """Labels, grades, spans, and candidates if the answers are read as such."""
        answer = self.placed(document)
        if answer is None:
            none = [NO_ANSWER] * len(document)
            return none, [NO_GRADE] * len(document), None, none
        spans = self.spans_to_show(answer)
        graded = [(a, b, label, grade_of(span.score, span.alignment)) for a, b, label, span in spans]
        labels, grades = layer_labels(len(document), graded)
        stored = [_stored(*one[:3]) for one in answer]
        if self.reading is Reading.ANSWERS:
            return labels, grades, stored
        return labels, grades, stored, self._candidates(document, answer)

    def spans_to_show(self, answer: Sequence[PlacedSpan]) -> list[SpanOnTokens]:
        """The spans of an answer that labels can show beside each other. Counts the others."""
        spans = _with_place(answer)
        visible = shown_spans(spans, attrgetter("sureness"))
        self._tally.unplaced[HIDDEN] += len(spans) - len(visible)
        return visible

    def _candidates(self, document: Document, answer: Sequence[PlacedSpan]) -> list[str]:
        """The candidates that begin at each token."""
        ends = np.append(document.sentence_starts, len(document))
        candidates = list[tuple[int, int, str, float]]()
        for first, last, label, span in _with_place(answer):
            assert span.score is not None
            if last > ends[np.searchsorted(document.sentence_starts, first, side="right")]:
                self._tally.unplaced[BEYOND] += 1
            else:
                candidates.append((first, last, label, span.score))
        return candidate_values(len(document), candidates)

    def placed(self, document: Document) -> list[PlacedSpan] | None:
        """The answer to a document, on its tokens; None where there is none. Counts it, and what has no place."""
        self._tally.documents += 1
        tokens = _solid_tokens(document)
        if self.reading is not Reading.ANSWERS:
            windows = self._windows(document, tokens[0])
            self._tally.answered += bool(windows)
            return self._merged([self._on_tokens(window, tokens) for window in windows]) if windows else None
        answer = self._find(document.doc_id, _digest(tokens[0])) or self._by_its_id(document)
        if answer is None:
            return None
        self._tally.answered += 1
        return self._on_tokens(_AnswerPart(answer), tokens).spans

    def _on_tokens(self, window: _AnswerPart, tokens: _SolidTokens) -> _PlacedPart:
        """The spans of an answer on the tokens of its document."""
        solid, start, end = tokens
        answer, low, run = window
        before = _solid_before(answer.text) + low
        high, cut = int(before[-1]), set[int]()
        placed = list[PlacedSpan]()
        for number, span in enumerate(answer.spans):
            first_character, end_character = int(before[span.start]), int(before[span.end])
            place = self._place(first_character, end_character, solid, start, end)
            first, last = (None, None) if place is None else place
            placed.append(PlacedSpan(span, first, last, self._names.get(span.label, span.label)))
            if (first_character == low > 0) or (end_character == high < len(solid)):
                cut.add(number)
        return _PlacedPart(placed, cut, run)

    def _windows(self, document: Document, solid: str) -> list[_AnswerPart]:
        """The answers to a document, to its text or parts of it, each part where it stands after the one before.

        Runs are the files, or in a single file those that answer a part again.
        """
        own = self._by_id.get(document.doc_id, []) or self._by_text.get(_digest(solid), [])
        self._used.update(own)
        parts, low, before = list[_AnswerPart](), -1, Counter[tuple[int, int]]()
        for answer in [*(self._answers[i] for i in own), *self._by_their_id(document)]:
            part = _solid(answer.text)
            place = solid.find(part, 0 if len(part) == len(solid) else low + 1)
            place = solid.find(part) if place < 0 else place
            if place < 0:
                self._tally.unused[OTHER_TEXT] += 1
                continue
            parts.append(_AnswerPart(answer, place, answer.path if self._in_files else before[place, len(part)]))
            before[place, len(part)] += 1
            low = place
        return parts

    def _merged(self, windows: Sequence[_PlacedPart]) -> list[PlacedSpan]:
        """The spans of all answers, each place and label once, with its highest score or its share of the runs.

        A span that is cut where its window ends gives way to one of another window that it lies in.
        """
        best, runs, whole, cut = dict[_Place, PlacedSpan](), dict[_Place, set[Hashable]](), set[_Place](), set[_Place]()
        unplaced = list[PlacedSpan]()
        for window in windows:
            for number, span in enumerate(window.spans):
                if span.first is None or span.last is None:
                    unplaced.append(span)
                    continue
                place = (span.first, span.last, span.label)
                self._tally.unplaced[MERGED] += place in best
                if place not in best or span.span.sureness > best[place].span.sureness:
                    best[place] = span
                runs.setdefault(place, set()).add(window.run)
                (cut if number in window.cut else whole).add(place)
        lost = {place for place in cut - whole if any(_lies_in(place, other) for other in best)}
        self._tally.unplaced[AT_EDGE] += len(lost)
        merged = [(place, best[place]) for place in sorted(best.keys() - lost)]
        if self.reading is Reading.SAMPLES:
            all_runs = len({window.run for window in windows}) + UNSEEN_RUNS
            merged = [
                (place, one._replace(span=one.span._replace(score=len(runs[place]) / all_runs)))
                for place, one in merged
            ]
        return [*(one for _, one in merged), *unplaced]

    def _find(self, doc_id: str, digest: bytes) -> TaggerAnswer | None:
        same = self._by_text.get(digest, [])
        own = next(reversed(self._by_id.get(doc_id, [])), None)
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
        """The last answer whose record has the document's id and no text, put on the document's."""
        return next(reversed(list(self._by_their_id(document))), None)

    def _by_their_id(self, document: Document) -> Iterator[TaggerAnswer]:
        """The answers whose records have the document's id and no text, put on the document's."""
        for record in self._textless.get(document.doc_id, []):
            self._placed[document.doc_id] += 1
            if (answer := self._of_record(record, document)) is not None:
                yield answer

    def _of_record(self, record: TextlessRecord, document: Document) -> TaggerAnswer | None:
        """A record's spans on a document's text; None, and a reject, where they cannot be read."""
        text = TokenizedText.of_words(document.tokens)[0] if document.raw is None else document.raw.content
        try:
            marked = record.placed(text)
            if self.reading is Reading.CANDIDATES and (fault := score_fault(marked)):
                raise BadLineError(fault)
        except BadLineError as error:
            reject = Reject(str(record.path), record.line, record.doc_id, f"line {record.line}: {error}")
            self._tally.rejects.append(reject)
            return None
        if not unicodedata.is_normalized("NFC", text):
            self._tally.count_lost(UNSURE for span in marked.spans if span.words is None)
            marked = marked._replace(spans=[span for span in marked.spans if span.words is not None])
        if any(span.anywhere for span in marked.spans):
            self._tally.notices.append(Notice(str(record.path), EVERYWHERE))
        self._tally.unplaced[MOVED] += sum(span.moved for span in marked.spans)
        answer = _of_text(record.doc_id, marked, record.path, self._tally)
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


def _with_place(answer: Sequence[PlacedSpan]) -> list[SpanOnTokens]:
    """The spans of an answer that have a place and that the user has not left out."""
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


def _solid_tokens(document: Document) -> _SolidTokens:
    """The document's text without blanks, and first and last (exclusive) character of each token in it."""
    if document.raw is not None:
        before = _solid_before(document.raw.content)
        return _solid(document.raw.content), before[document.raw.start], before[document.raw.end]
    words = [_solid(token) for token in document.tokens]
    end = np.cumsum([len(word) for word in words]).astype(np.int64)
    return "".join(words), np.concatenate([np.zeros(1, np.int64), end[:-1]]), end
