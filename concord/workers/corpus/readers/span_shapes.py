"""JSON records of texts with spans, in the shapes that annotation tools and taggers write.

Each is read as a `MarkedText`. A record has a text and a list of spans, under names of its tool; a span is
``[start, end, label]`` or an object with these under names of its tool. See ``docs/readers.md`` for the tools. A span
that cannot be read is lost alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from concord.workers.corpus.readers.reader import BadLineError, text_fault
from concord.workers.corpus.readers.span_places import (
    Borders,
    LostSpan,
    OffsetUnit,
    TextSpan,
    beyond_of,
    located,
    no_borders,
)

ID_KEYS = ("id", "doc_id", "document_id", "_id")
TEXT_KEYS = ("text", "full_text", "data", "content")
SPAN_KEYS = ("label", "labels", "entities", "spans", "results", "ents", "annotations", "extractions", "predictions")
START_KEYS = ("start", "start_offset", "start_position", "start_char", "start_pos", "begin")
END_KEYS = ("end", "end_offset", "end_position", "end_char", "end_pos", "stop")
LABEL_KEYS = ("label", "entity_type", "entity_group", "entity", "type", "extraction_class", "labels", "category", "tag")
WORD_KEYS = ("text", "entity_value", "extraction_text", "value", "span")
SCORE_KEYS = ("score", "confidence", "probability")
NO_TEXT_KEYS = frozenset((*ID_KEYS, *SPAN_KEYS, *LABEL_KEYS))
"""Keys of a record whose strings are no text."""
ANNOTATOR_KEYS = ("_annotator_id", "_session_id", "annotator", "annotator_id", "annotated_by")
"""Keys of a record that name who has marked its text."""
PLACE_KEYS = ("value", "char_interval")
"""Keys of an object inside a span that has its start and end."""
TOKEN_KEYS, TOKEN_SPAN_KEYS = ("tokenized_text", "tokens"), ("ner",)
TOKEN_LABEL_KEYS = ("labels", "ner_tags", "tags", "label")
UNALIGNED = "match_exact"
PREFIXED = re.compile(r"[BIESLU]-.+")


NO_SPAN = "are no [start, end, label] and no object"
NAMELESS = "have no name as label"
NO_NUMBER = "have no whole numbers as start and end"


class SpanError(BadLineError):
    """A record cannot be read as a text with spans; the message says why, and what to do."""


class UnreadableSpanError(SpanError):
    """One span of a record cannot be read; ``lost`` is what is told of it."""

    def __init__(self, reason: str, fault: str) -> None:
        super().__init__(fault)
        self.lost = LostSpan(reason, fault)


class MarkedText(NamedTuple):
    """A text with its spans; ``doc_id`` is None where the source has none.

    - ``spans``: spans of characters; of tokens if there are ``tokens``.
    - ``labels``: a label a token, in place of spans.
    - ``lost``: spans that cannot be read, or have no place in the text.
    - ``unit``: another unit in which all offsets are right, where those that were asked for are not.
    - ``annotator``: who has marked the text, where the record says so.
    """

    doc_id: str | None
    text: str
    spans: Sequence[TextSpan] = ()
    tokens: Sequence[str] | None = None
    labels: Sequence[str] | None = None
    lost: Sequence[LostSpan] = ()
    unit: OffsetUnit | None = None
    annotator: str = ""


class RecordNames(NamedTuple):
    """Names by which records are read; None: those of the tools, `ID_KEYS`, `TEXT_KEYS` and `SPAN_KEYS`.

    - ``answers``: of Label Studio's two lists, the one that is read.
    - ``offsets``: unit of starts and ends.
    """

    id_key: str | None = None
    text_key: str | None = None
    spans_key: str | None = None
    answers: Literal["annotations", "predictions"] = "annotations"
    offsets: OffsetUnit = "characters"


NAMES_OF_TOOLS = RecordNames()


def marked_text(record: Any, names: RecordNames, borders: Borders = no_borders) -> MarkedText:
    """The text and the spans of a record, in characters. Raises `SpanError`.

    - ``borders``: where words of a text may begin and end, for spans that have no place.
    """
    if isinstance(record, list):
        record = _of_pair(record)
    if not isinstance(record, dict):
        raise SpanError(
            f"want an object with a text and its spans, not {_shown(record)}; "
            'write {"id": ..., "text": ..., "entities": [...]}'
        )
    if record.get("answer") in ("reject", "ignore"):
        raise SpanError(f"its annotator's answer is {record['answer']!r}; take it out, or accept it")
    doc_id = _id(record, names)
    tokens = next((record[key] for key in TOKEN_KEYS if _strings(record.get(key))), None)
    if tokens is not None and names.text_key is None and not any(isinstance(record.get(k), str) for k in TEXT_KEYS):
        return _of_tokens(record, doc_id, tokens)
    text = _text(record, names)
    read = list(_spans(record, names))
    placed = located([span for span in read if isinstance(span, TextSpan)], text, names.offsets, borders)
    unread = [span for span in read if isinstance(span, LostSpan)]
    annotator = next((str(record[key]) for key in ANNOTATOR_KEYS if record.get(key)), "")
    return MarkedText(doc_id, text, placed.spans, lost=[*unread, *placed.lost], unit=placed.unit, annotator=annotator)


def without_text(record: Any, names: RecordNames) -> str | None:
    """The id of a record that has spans and no text of its own; None for any other record."""
    if not isinstance(record, dict) or "data" in record or is_record(record) or names.text_key in record:
        return None
    keys = SPAN_KEYS if names.spans_key is None else (names.spans_key,)
    return _id(record, names) if any(isinstance(record.get(key), list | dict) for key in keys) else None


def is_record(value: Any) -> bool:
    """Does a value look like a record: a text or tokens with names, or spaCy's pair?"""
    if isinstance(value, list):
        return len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], dict)
    return (
        isinstance(value, dict)
        and any(
            isinstance(value.get(key), str) or (isinstance(value.get(key), dict) and key == "data") for key in TEXT_KEYS
        )
    ) or (isinstance(value, dict) and any(_strings(value.get(key)) for key in TOKEN_KEYS))


def is_marked(value: Any) -> bool:
    """Does a record have spans, or a place for them?"""
    if isinstance(value, list):
        return is_record(value)
    return any(isinstance(value.get(key), list | dict) for key in (*SPAN_KEYS, *TOKEN_KEYS)) or "answer" in value


def inner_records(value: Any, names: RecordNames = NAMES_OF_TOOLS) -> Iterator[Any]:
    """The records of a value that holds them in lists or under names, such as Rasa's; itself if it holds none."""
    own = isinstance(value, dict) and (names.text_key in value or names.spans_key in value)
    if isinstance(value, dict) and not is_record(value) and not own:
        below = [inner for inner in value.values() if _holds_records(inner)]
        if len(below) == 1:
            for inner in below[0] if isinstance(below[0], list) else [below[0]]:
                yield from inner_records(inner, names)
            return
    yield value


def _holds_records(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and is_record(value[0]) and not _is_span(value[0])
    return isinstance(value, dict) and any(map(_holds_records, value.values()))


def _is_span(value: Any) -> bool:
    """Is an object with a text one span, whose words the text is?"""
    if not isinstance(value, dict):
        return False
    named = any(isinstance(value.get(key), str) for key in LABEL_KEYS)
    return any(key in value for key in START_KEYS) or (named and not is_marked(value))


def _of_pair(record: list[Any]) -> Any:
    """spaCy's ``["text", {"entities": [...]}]`` as an object."""
    if len(record) == 2 and isinstance(record[0], str) and isinstance(record[1], dict):
        return {"text": record[0], **record[1]}
    return record


def _id(record: Mapping[str, Any], names: RecordNames) -> str | None:
    keys = ID_KEYS if names.id_key is None else (names.id_key,)
    inner = record.get("data")
    task = [inner.get(key) for key in keys if key != "id"] if isinstance(inner, dict) else []
    for value in [*task, *(record.get(key) for key in keys)]:
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
            if fault := text_fault(str(value)):
                raise SpanError(f"its id {fault}")
            return str(value)
    if names.id_key is not None:
        raise SpanError(f"no id under {names.id_key!r}; give the records one, or take --set id_key out")
    return None


def _text(record: Mapping[str, Any], names: RecordNames) -> str:
    keys = TEXT_KEYS if names.text_key is None else (names.text_key,)
    inner = record.get("data")
    found = {key: place[key] for place in (record, inner) if isinstance(place, dict) for key in keys if key in place}
    texts = {key: value for key, value in found.items() if isinstance(value, str)}
    if not texts and isinstance(inner, dict) and names.text_key is None:
        texts = {key: value for key, value in inner.items() if isinstance(value, str)}
    if len(texts) != 1:
        raise SpanError(_without_text(record, keys, found))
    ((key, text),) = texts.items()
    if not text.strip():
        raise SpanError(f"its text {key!r} is blank; take the record out")
    if fault := text_fault(text):
        raise SpanError(f"its text {fault}")
    return text


def _without_text(record: Mapping[str, Any], keys: Sequence[str], found: Mapping[str, Any]) -> str:
    """Why no text was found under the keys, or several, and what to do."""
    cut = {key: record[key] for key in TOKEN_KEYS if key in record}
    wrong = {key: value for key, value in {**found, **cut}.items() if not isinstance(value, str | dict)}
    if wrong and not any(isinstance(value, str) for value in found.values()):
        (key, value), *_ = wrong.items()
        return f"{key!r} is {_shown(value)}; give the record its text, or take it out"
    there = ", ".join(map(repr, record))
    fault = f"no text under {' or '.join(map(repr, keys))} (it has {there[:80]})"
    named = any(isinstance(value, str | dict) for key, value in record.items() if key not in NO_TEXT_KEYS)
    if named or found:
        return f"{fault}; name it: --set text_key="
    return f'{fault}; write the text beside its spans: {{"id": ..., "text": ..., "entities": [...]}}'


def _of_tokens(record: Mapping[str, Any], doc_id: str | None, tokens: Sequence[str]) -> MarkedText:
    """A record that is cut into tokens: a label for each, or spans with the last token inside, as GLiNER's."""
    for token in tokens:
        if fault := text_fault(token) if token else "is empty; give it a word, or take it out":
            raise SpanError(f"a token {fault}")
    for key in TOKEN_LABEL_KEYS:
        if isinstance(labels := record.get(key), list) and len(labels) == len(tokens) and _strings(labels):
            return MarkedText(doc_id, " ".join(tokens), tokens=tokens, labels=labels)
    for key in TOKEN_SPAN_KEYS:
        if isinstance(record.get(key), list):
            read = [_each(item, _of_list) for item in record[key]]
            spans = [s._replace(end=s.end + 1) for s in read if isinstance(s, TextSpan) and s.end is not None]
            beyond = [(span, beyond_of(span, len(tokens), "tokens")) for span in spans]
            lost = [span for span in read if isinstance(span, LostSpan)] + [fault for _, fault in beyond if fault]
            inside = [span for span, fault in beyond if fault is None]
            return MarkedText(doc_id, " ".join(tokens), inside, tokens=tokens, lost=lost)
    raise SpanError(f"tokens without a label for each ({', '.join(TOKEN_LABEL_KEYS)}), and without spans ('ner')")


def _spans(record: Mapping[str, Any], names: RecordNames) -> Iterator[ReadSpan]:
    if isinstance(record.get("data"), dict) and names.spans_key is None:
        yield from _of_label_studio(record, names)
        return
    keys = SPAN_KEYS if names.spans_key is None else (names.spans_key,)
    lists = {key: record[key] for key in keys if isinstance(record.get(key), list | dict)}
    filled = {key: value for key, value in lists.items() if value}
    if len(filled) > 1:
        raise SpanError(f"spans under {' and '.join(map(repr, filled))}; choose: --set spans_key={next(iter(filled))}")
    if not lists and "answer" not in record:
        raise SpanError(f"no list of spans ({', '.join(keys)}); name it: --set spans_key=NAME")
    for value in filled.values():
        yield from _listed(value)


ReadSpan = TextSpan | LostSpan


def _each(item: Any, read: Callable[[Any], TextSpan]) -> ReadSpan:
    """A span, or what is told of one that cannot be read."""
    try:
        return read(item)
    except UnreadableSpanError as error:
        return error.lost


def _listed(value: Any) -> Iterator[ReadSpan]:
    """The spans of a list, or of an object of lists: by type (GLiNER2), or by group (spaCy)."""
    if isinstance(value, list):
        read = [_each(item, _of_item) for item in value]
        yield from (span for span in read if isinstance(span, LostSpan))
        yield from _joined([span for span in read if isinstance(span, TextSpan)], value)
        return
    for name, inner in value.items():
        for item in inner if isinstance(inner, list) else [inner]:
            if isinstance(item, str):
                yield TextSpan(None, None, type_name(name), words=item)
            elif isinstance(item, dict) and not any(key in item for key in LABEL_KEYS):
                yield _each({**item, "label": name}, _of_object)
            else:
                yield _each(item, _of_item)


def _of_item(item: Any) -> TextSpan:
    return _of_list(item) if isinstance(item, list) else _of_object(item)


def _of_list(item: Any) -> TextSpan:
    if not (isinstance(item, list) and len(item) >= 3):
        raise UnreadableSpanError(NO_SPAN, f"want a span as [start, end, label], not {_shown(item)}")
    return TextSpan(_number(item[0]), _number(item[1]), type_name(item[2]))


def _of_object(item: Any) -> TextSpan:
    if not isinstance(item, dict):
        raise UnreadableSpanError(NO_SPAN, f"want a span as [start, end, label] or an object, not {_shown(item)}")
    inner: Mapping[str, Any] = next((item[key] for key in PLACE_KEYS if isinstance(item.get(key), dict)), {})
    both = {**item, **inner}
    kind = next((both[key] for key in LABEL_KEYS if both.get(key) is not None), None)
    start, end = _first(both, START_KEYS), _first(both, END_KEYS)
    words = next((both[key] for key in WORD_KEYS if isinstance(both.get(key), str)), None)
    status = item.get("alignment_status")
    alignment = status if isinstance(status, str) and status else None
    if item.get("alignment_status", UNALIGNED) != UNALIGNED and start is not None:
        words = None
    if isinstance(kind, list) and len(kind) == 1:
        kind = kind[0]
    if isinstance(kind, dict):  # Flair's label, with its own score
        both, kind = {**kind, **both}, kind.get("value")
    # Words have a place without numbers, too.
    first, last = (_number(side) if words is None or _is_number(side) else None for side in (start, end))
    return TextSpan(first, last, type_name(kind), words, _score(_first(both, SCORE_KEYS)), alignment=alignment)


def _of_label_studio(record: Mapping[str, Any], names: RecordNames) -> Iterator[ReadSpan]:
    """The spans of a task of Label Studio: of its one annotation, or of the one that is called the truth."""
    found = [a for a in record.get(names.answers) or [] if isinstance(a, dict) and not a.get("was_cancelled")]
    chosen = [a for a in found if a.get("ground_truth")] or found
    if not chosen:
        other = "annotations" if names.answers == "predictions" else "predictions"
        there = f"; it has {other}: --set answers={other}" if record.get(other) else ""
        raise SpanError(f"task without {names.answers}{there}")
    results = [[item for item in a.get("result") or [] if _marks_text(item)] for a in chosen]
    spans = [[span for item in result for span in _of_result(item)] for result in results]
    if any(sorted(map(str, one)) != sorted(map(str, spans[0])) for one in spans[1:]):
        raise SpanError(f"task with {len(spans)} {names.answers} that differ; mark one as ground truth, or keep one")
    yield from spans[0]


def _marks_text(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("value"), dict) and "start" in item["value"]


def _of_result(item: Mapping[str, Any]) -> Iterator[ReadSpan]:
    value = item["value"]
    kinds = next((value[k] for k in ("labels", "hypertextlabels", item.get("type")) if _strings(value.get(k))), None)
    if not kinds:
        yield LostSpan(NAMELESS, "a span without labels; give it one, or take it out")
        return
    for kind in kinds:
        own = {k: v for k, v in value.items() if k != "labels"}
        yield _each({**own, "label": kind, "score": item.get("score")}, _of_object)


def _joined(spans: Sequence[TextSpan], items: Sequence[Any]) -> Iterator[TextSpan]:
    """The spans; those of a pipeline that labels pieces of words in BIO (``entity``: ``B-PER``) are put together."""
    pieces = all(isinstance(item, dict) and "entity" in item and "entity_group" not in item for item in items)
    if not pieces or not all(PREFIXED.fullmatch(span.type) for span in spans):
        yield from spans
        return
    last: TextSpan | None = None
    for span in spans:
        prefix, kind = span.type[0], span.type[2:]
        own = span._replace(type=kind, words=None)
        near = last is not None and last.end is not None and span.start is not None and span.start - last.end <= 1
        touches = last is not None and span.start == last.end
        if last is not None and last.type == kind and near and (prefix in "IEL" or (touches and prefix == "I")):
            last = last._replace(end=span.end)
            continue
        if last is not None:
            yield last
        last = own
    if last is not None:
        yield last


# Values


def _first(item: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((item[key] for key in keys if item.get(key) is not None), None)


def _is_number(value: Any) -> bool:
    """Is a value a whole number, as JSON has it or as text?"""
    if isinstance(value, str):
        return re.fullmatch(r"\s*[0-9]{1,18}\s*", value) is not None
    return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())


def _number(value: Any) -> int:
    if _is_number(value):
        return int(value)
    raise UnreadableSpanError(NO_NUMBER, f"want a whole number as start or end of a span, not {_shown(value)}")


def _score(value: Any) -> float | None:
    """A score, also one that is written as text; NaN for one that is there and is no number."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return None if value is None else float(value)
    try:
        return float(value) if isinstance(value, str) else math.nan
    except ValueError:
        return math.nan


def type_name(value: Any) -> str:
    """The label of a span, without blanks around it. Raises `SpanError` where it is no name."""
    name = value.strip() if isinstance(value, str) else ""
    if not name or text_fault(name):
        raise UnreadableSpanError(NAMELESS, f"want a name as label of a span, not {_shown(value)}")
    return name


def _strings(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)


def _shown(value: Any) -> str:
    text = "null" if value is None else repr(value)
    return text if len(text) <= 40 else text[:40] + "…"
