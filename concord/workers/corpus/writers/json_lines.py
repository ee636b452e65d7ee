"""Forms of a JSON object a document: concord's own, doccano's, Presidio's, and Label Studio's tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from concord.schemas.exported import Change, ExportedDocument, ExportedSpan
from concord.schemas.settings import WriterSettings
from concord.workers.corpus.settings import LabelStudioSettings
from concord.workers.corpus.writers.writer import FormError, Piece


def write_jsonl(documents: Iterator[ExportedDocument], settings: WriterSettings) -> Iterator[Piece]:
    """A line a document: id, text, spans and tokens, as Prodigy and spaCy have them; marks stand in the spans."""
    for document in documents:
        tokens = [
            {"text": word, "start": start, "end": end, "id": number}
            for number, (word, start, end) in enumerate(
                zip(document.tokens, document.token_start, document.token_end, strict=True)
            )
        ]
        own = {
            "id": document.doc_id,
            "text": document.text,
            "spans": [_span(span, "start", "end", "label") | _marks(span, settings) for span in document.spans],
            "tokens": tokens,
            "sentence_starts": list(document.sentence_starts),
        }
        yield _line(document, own, _changes(document, settings))


def write_doccano(documents: Iterator[ExportedDocument], settings: WriterSettings) -> Iterator[Piece]:
    """A line a document: id, text, and ``[start, end, label]`` of each span; marks stand beside them."""
    for document in documents:
        spans = [[span.first, span.last, span.type] for span in document.spans]
        own = {"id": document.doc_id, "text": document.text, "label": spans}
        yield _line(document, own, _changes(document, settings, kept_in_spans=False))


def write_presidio(documents: Iterator[ExportedDocument], settings: WriterSettings) -> Iterator[Piece]:
    """A line a document: id, text, and results with entity_type, start, end and score (1 if the run has none)."""
    for document in documents:
        results = [
            _span(span, "start", "end", "entity_type")
            | {"score": 1.0 if span.score is None else span.score}
            | ({"recognition_metadata": _marks(span, settings)} if _marks(span, settings) else {})
            for span in document.spans
        ]
        own = {"id": document.doc_id, "text": document.text, "results": results}
        yield _line(document, own, _changes(document, settings))


def write_label_studio(documents: Iterator[ExportedDocument], settings: LabelStudioSettings) -> Iterator[Piece]:
    """An array of tasks whose predictions are the spans; the reason of a change stands in the region's ``meta``."""
    before = "[\n"
    for document in documents:
        places = _utf16(document.text) if settings.offsets == "utf-16" else None
        results = [_region(number, span, document, settings, places) for number, span in enumerate(document.spans)]
        own = {settings.data_key: document.text, "doc_id": document.doc_id}
        data = own | _others(document, own) | _changes(document, settings, kept_in_spans=True)
        task = {"data": data, "predictions": [{"model_version": settings.model_version, "result": results}]}
        yield Piece("", (before + _dumped(task)).encode())
        before = ",\n"
    yield Piece("", b"[]\n" if before == "[\n" else b"\n]\n")


def _region(
    number: int,
    span: ExportedSpan,
    document: ExportedDocument,
    settings: LabelStudioSettings,
    places: Sequence[int] | None,
) -> dict[str, Any]:
    start, end = (span.first, span.last) if places is None else (places[span.first], places[span.last])
    region: dict[str, Any] = {
        "id": str(number),
        "from_name": settings.from_name,
        "to_name": settings.to_name,
        "type": "labels",
        "value": {"start": start, "end": end, "text": span.text, "labels": [span.type]},
    }
    if span.score is not None:
        region["score"] = span.score
    if settings.marks and document.note(span):
        region["meta"] = {"text": [document.note(span)]}
    return region


def _utf16(text: str) -> list[int]:
    """Place of each character, and of the end, in UTF-16 units."""
    places = [0]
    for character in text:
        places.append(places[-1] + 1 + (character > "\uffff"))
    return places


def _span(span: ExportedSpan, start: str, end: str, label: str) -> dict[str, Any]:
    return {start: span.first, end: span.last, label: span.type, "text": span.text}


def _marks(span: ExportedSpan, settings: WriterSettings) -> dict[str, Any]:
    """What became of a span, for one that was not kept."""
    if not settings.marks or span.change is Change.KEPT:
        return {}
    return {"change": str(span.change)} | ({} if span.before is None else {"before": span.before})


def _changes(document: ExportedDocument, settings: WriterSettings, *, kept_in_spans: bool = True) -> dict[str, Any]:
    """What was changed in a document and why; nothing where nothing was.

    - ``kept_in_spans``: are changes of spans that are there marked at the spans?
    """
    changed = [span for span in document.spans if span.change is not Change.KEPT]
    if not settings.marks or not (changed or document.removed):
        return {}
    entries = [*document.removed, *([] if kept_in_spans else changed)]
    spans = [
        {"start": s.first, "end": s.last, "text": s.text, "before": s.before, "change": str(s.change)} for s in entries
    ]
    why = [{"constraint": reason.constraint, "nats": reason.finite} for reason in document.reasons]
    return ({"changes": spans} if spans else {}) | {"why": why}


def _others(document: ExportedDocument, own: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that are passed on. Raises `FormError` for one of a name that the form has itself."""
    taken = [name for name in document.columns if name in own or name in ("changes", "why")]
    if taken:
        raise FormError(f"column {taken[0]!r}: the form has one of that name itself; rename it in the corpus")
    return dict(document.columns)


def _line(document: ExportedDocument, own: Mapping[str, Any], changes: Mapping[str, Any]) -> Piece:
    return Piece("", (_dumped({**own, **_others(document, own), **changes}) + "\n").encode())


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
