"""In which form a file is, by what its beginning cannot be otherwise: so that no reader takes another's in silence."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from xml.parsers import expat

from concord.schemas.label_names import read_label_names
from concord.schemas.labels import SPAN_PREFIXES, LabelError, Scheme
from concord.workers.corpus.readers.reader import BadLineError, SourceForm
from concord.workers.corpus.readers.span_shapes import RecordNames, inner_records, is_marked, is_record, marked_text
from concord.workers.corpus.readers.unread_forms import (
    csv_form,
    is_concepts,
    is_packed,
    parquet_form,
    unread_text,
    unread_words,
)

HEAD_BYTES = 1 << 16
"""Bytes of a file that are looked at."""
JSON_BYTES = 1 << 22
"""Bytes of a file of JSON that are looked at."""
MOST_RECORDS = 20
"""Records at the start of a file of JSON that are looked at for spans."""


def form_of(path: Path) -> SourceForm | None:
    """The form of a file; None for plain text, and for whatever could be several."""
    if path.suffix in (".ann", ".txt") and path.with_suffix(".ann").exists() and path.with_suffix(".txt").exists():
        return SourceForm.BRAT
    if is_concepts(path):
        return SourceForm.I2B2
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
        if head.lstrip()[:1] in (b"{", b"["):
            head += file.read(JSON_BYTES - HEAD_BYTES)  # a record may be long
    if head.startswith(b"PAR1"):
        return parquet_form(path)
    if is_packed(path, head):
        return SourceForm.PACKED
    if path.suffix == ".spacy":
        return SourceForm.DOC_BIN
    head = head.removeprefix(codecs.BOM_UTF8)
    text = head.decode("utf-8", errors="replace")
    if b"\0" in head or not text.strip():
        return None
    if len(head) in (HEAD_BYTES, JSON_BYTES):
        text = text[: text.rfind("\n") + 1] or text  # the last line may be cut
    if path.suffix.lower() == ".csv":
        return csv_form(text)
    form = unread_text(text) or next((form for looks, form in _LOOKS if looks(text)), None)
    return form or _of_columns(text) or unread_words(text)


def _is_xml(text: str) -> bool:
    """Is it one element with others inside, as far as it goes?"""
    if not text.lstrip().startswith("<"):
        return False
    depth = deepest = 0

    def start(_: str, __: dict[str, str]) -> None:
        nonlocal depth, deepest
        depth += 1
        deepest = max(deepest, depth)

    def end(_: str) -> None:
        nonlocal depth
        depth -= 1

    parser = expat.ParserCreate("utf-8")
    parser.StartElementHandler, parser.EndElementHandler = start, end
    try:
        parser.Parse(text.lstrip().encode(), False)  # noqa: FBT003 — expat takes no keywords
    except expat.ExpatError:
        return text.lstrip().startswith("<?xml")
    return deepest > 1 or text.lstrip().startswith("<?xml")


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


def _is_conllu(text: str) -> bool:
    rows = [line.split("\t") for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return bool(rows) and len(rows[0]) == 10 and re.fullmatch(r"[0-9]+(-[0-9]+)?", rows[0][0]) is not None


def _is_pubtator(text: str) -> bool:
    return re.match(r"\s*[^|\t\n]*[^|\s]\|t\|", text) is not None


def _is_conll(text: str) -> bool:
    return re.search(r"(?m)^[ \t]*-DOCSTART-(?=\s|$)", text) is not None


def _is_addresses(text: str) -> bool:
    lines = [line for line in text.splitlines() if line.strip()]
    # A field has no tab: features of citations in columns have bars, too.
    written = all(re.fullmatch(r"[^\t]*\S\s*\|\s*\S+\s*", line) for line in lines)
    return written and len(_distinct_labels(lines)) > 1


def _distinct_labels(lines: Sequence[str]) -> set[str]:
    return {line.rpartition("|")[2].strip() for line in lines}


def _is_tagged_lines(text: str) -> bool:
    """Does the first line consist of fields, each in tags of its name?"""
    first = next(line for line in text.splitlines() if line.strip())
    return re.fullmatch(r"(\s*<([A-Za-z_]\w*)>(?:(?!</?\2>).)*</\2>\s*)+", first) is not None


def _is_label_list(text: str) -> bool:
    """Is each line a label, and one of them O?"""
    lines = text.split()
    short = all(re.fullmatch(r"O|[BIESLU]|([BIESLU][-_].+)|<.+>", line) for line in lines)
    return short and "O" in lines and len(lines) == len([line for line in text.splitlines() if line.strip()])


def _is_mail(text: str) -> bool:
    return re.search(r"</(stime|etime|speaker|location|sentence|paragraph)>", text) is not None


_LOOKS: tuple[tuple[Callable[[str], bool], SourceForm], ...] = (
    (_is_xml, SourceForm.XML),
    (_is_spans, SourceForm.SPANS),
    (_is_texts, SourceForm.TEXTS),
    (_is_conllu, SourceForm.CONLLU),
    (_is_pubtator, SourceForm.PUBTATOR),
    (_is_conll, SourceForm.CONLL),
    (_is_mail, SourceForm.MAIL),
    (_is_tagged_lines, SourceForm.TAGGED_LINES),
    (_is_addresses, SourceForm.ADDRESSES),
    (_is_label_list, SourceForm.LABEL_LIST),
)


def _of_columns(text: str) -> SourceForm | None:
    """The form of a file in which all lines have the same columns; None for any other."""
    lines = [line for line in text.splitlines() if line.strip() and not re.match(r"#+ ", line)]
    rows = _rows(lines)
    if rows is None:
        return None
    labels = [row[-1] for row in rows]
    marked = [label for label in labels if label.startswith(SPAN_PREFIXES)]
    outside = labels.count("O")
    if marked and len(marked) + outside >= len(labels) - 1:  # the first line may name the columns
        nested = any("/" in label and re.search(r"/[A-Z]-", label) for label in marked)
        return SourceForm.NESTED if nested and len(rows[0]) == 4 else SourceForm.COLUMNS
    if outside and all(re.fullmatch(r"[A-Za-z][\w.-]*", label) for label in labels):
        return SourceForm.PLAIN_COLUMNS if _are_types(labels) else SourceForm.COLUMNS
    if all(re.fullmatch(r"[A-Z][A-Z0-9_.-]*", label) for label in labels) and len(rows) > 2:
        return SourceForm.PLAIN_COLUMNS
    return SourceForm.TABLE if "\t" in lines[0] and len(rows) > 1 else None


def _are_types(labels: Sequence[str]) -> bool:
    """Are the labels beside O types by themselves, and none meant to have a prefix?"""
    try:
        return read_label_names(dict.fromkeys(labels)).scheme is Scheme.PLAIN
    except LabelError:
        return False


def _rows(lines: Sequence[str]) -> list[list[str]] | None:
    """The columns of lines that have equally many, between tabs or else between blanks; None for others."""
    for separator in ("\t", None):
        rows = [line.split(separator) for line in lines]
        if rows and len(rows[0]) > 1 and {len(row) for row in rows} == {len(rows[0])}:
            return rows
    return None
