"""Forms of JSON: texts with spans, and texts alone."""

from __future__ import annotations

import json

from concord.workers.corpus.readers.reader import BadLineError, SourceForm, in_text
from concord.workers.corpus.readers.span_shapes import RecordNames, inner_records, is_marked, is_record, marked_text

MOST_RECORDS = 20
"""Records at the start of a file that are looked at for spans."""


def _json_values(text: str) -> list[object]:
    """The first values of a file of JSON; none where it is none."""
    values: list[object] = []
    decoder, at = json.JSONDecoder(), len(text) - len(text.lstrip())
    if text[at : at + 1] == "[" and text[at + 1 :].lstrip()[:1] in ("{", "["):
        at += 1
    while len(values) < MOST_RECORDS:
        at += len(text[at:]) - len(text[at:].lstrip(" \t\r\n,"))
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return values
        if not isinstance(value, dict | list):
            return []
        values += inner_records(value)
    return values


def _is_spans(text: str) -> bool:
    """Is it JSON of which a record has spans, or tokens?"""
    for value in _json_values(text) if text.lstrip()[:1] in ("{", "[") else []:
        try:
            found = marked_text(value, RecordNames())
        except BadLineError:
            if is_record(value) and is_marked(value):
                return True
            continue
        if found.spans or found.tokens or found.lost:
            return True
    return False


def _is_texts(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[") and any(isinstance(value, dict) for value in _json_values(text))


SPANS_FORM = SourceForm("JSON of texts with spans", 190, in_text(_is_spans))
TEXTS_FORM = SourceForm("JSON of texts", 200, in_text(_is_texts))
