"""Texts with spans of characters: JSON of annotation tools and taggers, brat's folders, spaCy's ``.spacy`` files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from concord.schemas.columns import Misfit, Notice, Reject
from concord.schemas.document import TOKENS, Column, Document
from concord.schemas.errors import CorpusError
from concord.schemas.labels import OUTSIDE, to_bio
from concord.workers.corpus.readers.brat import ANNOTATION_SUFFIX, TEXT_SUFFIX, read_brat
from concord.workers.corpus.readers.json_forms import SPANS_FORM, TEXTS_FORM
from concord.workers.corpus.readers.json_records import LINE_SUFFIXES, JsonRecord, json_records
from concord.workers.corpus.readers.lines import label_fault
from concord.workers.corpus.readers.reader import (
    EMPTY_FILE,
    BadLineError,
    FileStart,
    ReaderEntry,
    ReaderItem,
    SourceForm,
    or_nothing,
    source_files,
)
from concord.workers.corpus.readers.span_places import NO_PLACE, Borders, TextSpan
from concord.workers.corpus.readers.span_shapes import (
    MarkedText,
    RecordNames,
    inner_records,
    marked_text,
    without_text,
)
from concord.workers.corpus.readers.spans import CharSpan, SpanFault, marked_document
from concord.workers.corpus.settings import SpansSettings
from concord.workers.corpus.tokenizers.registry import load_tokenizer

DOC_BIN = ".spacy"
JSON_SUFFIXES = (*LINE_SUFFIXES, ".json")
SPAN_SUFFIXES = (*JSON_SUFFIXES, ANNOTATION_SUFFIX, DOC_BIN)
PARTS_AS_ONE = "have several parts; taken as one"
LEFT_OUT = "left out"
EVERYWHERE = "spans have no offsets, so each stands at all places of its words"
MOVED = "have other words at their offsets than beside them; each stands where its words are nearest"


class PlacedText(NamedTuple):
    """A text with its spans as its source has them, the document's id, and where it stands: file, and line from 1."""

    doc_id: str
    found: MarkedText
    path: Path
    line: int


class TextlessRecord(NamedTuple):
    """A record with spans and without a text: its id, and what it is with the text of that document."""

    doc_id: str
    value: Mapping[str, Any]
    names: RecordNames
    borders: Borders
    path: Path
    line: int

    def placed(self, text: str) -> MarkedText:
        """Its spans in a text. Raises `BadLineError`."""
        key = self.names.text_key or "text"
        return marked_text({**self.value, key: text}, self.names._replace(text_key=key), self.borders)


def read_spans(source: str, settings: SpansSettings) -> Iterator[ReaderItem]:
    """Documents of a file or of all files of a folder, with text, character offsets and labels in BIO.

    A document has the id of its record; one without, or with an id that was there before, that of its file and line.
    Records of a second kind, which are cut into tokens already, have no text. Raises `CorpusError` where a folder
    has no file of these kinds.
    """
    for item in read_placed(source, settings):
        yield from documents_of(item, settings) if isinstance(item, PlacedText) else [item]


def read_placed(source: str, settings: SpansSettings) -> Iterator[PlacedText | Document | Reject | Misfit | Notice]:
    """The texts of a source with their spans before these are put on tokens; documents of spaCy's files are whole.

    Ids and errors as in `read_spans`.
    """
    for item in read_answers_placed(source, settings):
        if isinstance(item, TextlessRecord):
            yield Reject(str(item.path), item.line, item.doc_id, f"line {item.line}: {_without_text(item)}")
        else:
            yield item


def _without_text(record: TextlessRecord) -> str:
    """Why a record without a text cannot be read."""
    try:
        marked_text(record.value, record.names)
    except BadLineError as error:
        return str(error)
    raise AssertionError(f"{record.doc_id} has a text")


def read_answers_placed(
    source: str, settings: SpansSettings, *, repeated: bool = False
) -> Iterator[PlacedText | TextlessRecord | Document | Reject | Misfit | Notice]:
    """As `read_placed`, for answers to documents that are known by their id: a record needs no text of its own.

    - ``repeated``: may records have the same id, such as the windows of a long text?
    """
    files = source_files(source)
    chosen = files if len(files) == 1 else [(path, name) for path, name in files if _is_read(path)]
    if not chosen:
        raise CorpusError(f"{source}: no {', '.join(SPAN_SUFFIXES)} files in this folder; check the path")
    seen: set[str] = set()
    for path, name in chosen:
        prefix = (settings.prefix or "") + str(PurePosixPath(name).with_suffix(""))
        if path.suffix == DOC_BIN and repeated:
            from concord.workers.corpus.readers.doc_bin import read_scored

            for number, marked in enumerate(read_scored(path, prefix, settings.spans_key), 1):
                yield marked if isinstance(marked, Reject) else PlacedText(str(marked.doc_id), marked, path, number)
        elif path.suffix == DOC_BIN:
            from concord.workers.corpus.readers.doc_bin import read_doc_bin

            yield from or_nothing(path, read_doc_bin(path, prefix, settings.spans_key))
        elif _is_brat(path):
            yield from _brat(path, prefix, settings)
        else:
            yield from _records_or_nothing(path, prefix, settings, seen, repeated=repeated)


def _is_read(path: Path) -> bool:
    """Is a file of a folder read? Of brat's pairs the annotations are, or a text that has none."""
    lone_text = path.suffix == TEXT_SUFFIX and not path.with_suffix(ANNOTATION_SUFFIX).exists()
    return path.suffix.lower() in SPAN_SUFFIXES or (lone_text and _is_brat_folder(path.parent))


def _is_brat_folder(folder: Path) -> bool:
    return any(folder.glob(f"*{ANNOTATION_SUFFIX}"))


def _is_brat(path: Path) -> bool:
    return path.suffix == ANNOTATION_SUFFIX or (path.suffix == TEXT_SUFFIX and _is_brat_folder(path.parent))


RecordItem = PlacedText | TextlessRecord | Reject | Notice


def _records_or_nothing(
    path: Path, prefix: str, settings: SpansSettings, seen: set[str], *, repeated: bool
) -> Iterator[RecordItem]:
    """The records of a file, or a single reject of the whole file if there are none."""
    nothing = True
    for item in _lost_alone(_records(path, prefix, settings, seen, repeated=repeated)):
        nothing = False
        yield item
    if nothing:
        yield Reject(str(path), None, None, EMPTY_FILE)


def _brat(path: Path, doc_id: str, settings: SpansSettings) -> Iterator[RecordItem]:
    marked = read_brat(path, doc_id, settings.encoding)
    if isinstance(marked, Reject):
        yield marked
        return
    yield from _lost_alone([PlacedText(doc_id, marked, path, 1)])
    if moved := sum(span.moved for span in marked.spans):
        yield Notice(str(path), f"{moved:,} spans {MOVED}")


def _lost_alone(items: Iterable[RecordItem]) -> Iterator[RecordItem]:
    """The items of a file in which a span that cannot be read is lost alone.

    Where none can be, the file has another form than was thought: its records are rejects, each with its first fault.
    """
    held, readable = list[RecordItem](), False
    for item in items:
        readable = readable or (isinstance(item, PlacedText) and bool(item.found.spans or item.found.labels))
        if readable:
            yield from held
            held = []
        if readable or not (held or _fault_of(item)):
            yield item
        else:
            held.append(item)
    for item in held:
        if isinstance(item, PlacedText) and (fault := _fault_of(item)):
            yield Reject(str(item.path), item.line, item.doc_id, fault)
        else:
            yield item


def _fault_of(item: RecordItem) -> str:
    """What is wrong with the first span of a record that is not as spans are; empty if all are."""
    if not isinstance(item, PlacedText):
        return ""
    return next((f"line {item.line}: {span.fault}" for span in item.found.lost if span.reason != NO_PLACE), "")


def _borders(settings: SpansSettings) -> Borders:
    """Where the tokens of a text begin and end."""

    def cut(text: str) -> tuple[frozenset[int], frozenset[int]]:
        tokens = load_tokenizer(settings.cutting)([text])
        return frozenset(tokens.start.tolist()), frozenset(tokens.end.tolist())

    return cut


def _records(
    path: Path, prefix: str, settings: SpansSettings, seen: set[str], *, repeated: bool
) -> Iterator[RecordItem]:
    names = RecordNames(settings.id_key, settings.text_key, settings.spans_key, settings.answers, settings.offsets)
    number, anywhere, moved, agreed = 0, 0, 0, 0
    by_text = dict[str, tuple[MarkedText, int]]()  # of records whose annotator alone tells them apart
    units = set[str | None]()
    borders = _borders(settings)
    cut: bool | None = None  # are the records cut into tokens? All of a file have to be alike
    for outer in json_records(path, settings.encoding):
        for value in [None] if outer.fault else inner_records(outer.value, names):
            number += 1
            placed = f"{prefix}-{number:04d}"
            record = _read(outer, value, names, borders, path)
            if isinstance(record, str):
                seen.add(placed)
                yield Reject(str(path), outer.line, placed, record)
                continue
            doc_id = placed if record.doc_id is None else record.doc_id
            wrong = (
                ""
                if repeated or doc_id not in seen
                else f"document {doc_id!r} was there before; take out one of the two"
            )
            if isinstance(record, MarkedText):
                cut = record.tokens is not None if cut is None else cut
                if not wrong and cut != (record.tokens is not None):
                    wrong = "records of tokens and records of texts in one file; put them into files of their own"
            if not wrong and isinstance(record, MarkedText) and record.doc_id is None and record.annotator:
                first, line = by_text.setdefault(record.text, (record, outer.line))
                if first is not record and first.spans == record.spans:
                    agreed += 1
                    continue
                wrong = _contradiction(record, first, line)
            if wrong:
                seen.add(placed)
                yield Reject(str(path), outer.line, placed, f"line {outer.line}: {wrong}")
                continue
            seen.add(doc_id)
            if isinstance(record, TextlessRecord):
                yield record
                continue
            anywhere += sum(span.anywhere for span in record.spans)
            if own := sum(span.moved for span in record.spans):
                moved += own
                units.add(record.unit)
            yield PlacedText(doc_id, record, path, outer.line)
    if agreed:
        yield Notice(str(path), f"{agreed:,} records have the text and the spans of another annotator's: read once")
    if anywhere:
        yield Notice(str(path), EVERYWHERE)
    if moved:
        (unit,) = units if len(units) == 1 else (None,)
        remedy = f"; they are counted in {unit}: --set offsets={unit}" if unit else ""
        yield Notice(str(path), f"{moved:,} spans {MOVED}{remedy}")


def _contradiction(record: MarkedText, first: MarkedText, line: int) -> str:
    """Why a record cannot be gold beside the first one of its text; empty where it is that one."""
    if record is first:
        return ""
    return (
        f"{record.annotator!r} has marked the text otherwise than {first.annotator!r} in line {line}, whose spans are "
        "taken; keep the record that is right"
    )


def _read(
    outer: JsonRecord, value: object, names: RecordNames, borders: Borders, path: Path
) -> MarkedText | TextlessRecord | str:
    """The text and spans of a record, or its spans alone, or the reason why it has none."""
    if outer.fault:
        return outer.fault
    try:
        doc_id = without_text(value, names)
        if doc_id is not None and isinstance(value, dict):
            return TextlessRecord(doc_id, value, names, borders, path, outer.line)
        found = marked_text(value, names, borders)
        return found if found.labels is None else _checked(found)
    except BadLineError as error:
        return f"line {outer.line}: {error}"


def _checked(found: MarkedText) -> MarkedText:
    """A record with a label a token, whose labels can be read. Raises `BadLineError`."""
    for label in found.labels or ():
        if fault := label_fault(label):
            raise BadLineError(fault)
    return found


def documents_of(placed: PlacedText, settings: SpansSettings) -> Iterator[Document | Misfit]:
    """The document of a record, and the spans that its labels cannot express."""
    doc_id, found, path, line = placed
    if found.tokens is not None:
        yield _of_tokens(doc_id, found, found.tokens)
        yield from _lost(placed)
        return
    spans = [_of_characters(span, line) for span in found.spans]
    document, faults = marked_document(doc_id, found.text, spans, settings)
    yield document
    parts = [SpanFault(span, PARTS_AS_ONE) for span, own in zip(spans, found.spans, strict=True) if own.parts > 1]
    for span, reason in sorted([*faults, *parts]):
        yield Misfit(str(path), span.line, doc_id, reason)
    yield from _lost(placed)


def _lost(placed: PlacedText) -> Iterator[Misfit]:
    for span in placed.found.lost:
        yield Misfit(str(placed.path), placed.line, placed.doc_id, f"{span.reason}; {LEFT_OUT}", in_text=False)


def _of_characters(span: TextSpan, line: int) -> CharSpan:
    assert span.start is not None
    assert span.end is not None
    return CharSpan(span.start, span.end, span.type, line if span.line is None else span.line)


def _of_tokens(doc_id: str, found: MarkedText, tokens: Sequence[str]) -> Document:
    """A document of one sentence; of spans that share a token the first holds."""
    names = [OUTSIDE] * len(tokens)
    if found.labels is not None:
        names = to_bio(found.labels)
    for span in found.spans:
        start, end = span.start or 0, span.end or 0
        if all(name == OUTSIDE for name in names[start:end]):
            names[start:end] = [f"B-{span.type}", *[f"I-{span.type}"] * (end - start - 1)]
    return Document(doc_id, np.zeros(1, np.int64), {TOKENS: Column.encode(tokens)}, Column.encode(names))


def _is_brat_pair(start: FileStart) -> bool:
    pair = [start.path.with_suffix(suffix) for suffix in (ANNOTATION_SUFFIX, TEXT_SUFFIX)]
    return start.path in pair and all(path.exists() for path in pair)


SPANS_READER = ReaderEntry(
    read_spans,
    SpansSettings,
    "texts with spans: JSON of annotation tools and taggers, brat, .spacy",
    forms=(
        SourceForm("brat's texts with their annotations", 10, _is_brat_pair, in_folder=True),
        SourceForm("a .spacy file", 60, lambda start: start.path.suffix == DOC_BIN),
        SPANS_FORM,
    ),
    takes=(TEXTS_FORM,),
    suffixes=SPAN_SUFFIXES,
    finds="span",
)
