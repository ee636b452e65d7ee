"""Forms of other programs that no reader takes: how each is known, and what to export or write in its place."""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from concord.schemas.columns import LABEL_NAMES
from concord.schemas.labels import OUTSIDE, SPAN_PREFIXES
from concord.workers.corpus.readers.reader import SourceForm

_COLUMNS = "and `concord ingest columns` reads it"
_RECORDS = '{"text": "Ann ran.", "spans": [{"start": 0, "end": 3, "label": "PER"}]} a line, and `concord ingest spans`'
_TEXTS_ALONE = "for the texts alone: `concord ingest text` with --set text_column=NAME"
UNREAD_FORMS: Mapping[SourceForm, str] = {
    SourceForm.WEBANNO: f"export CoNLL 2002 in its place, {_COLUMNS}",
    SourceForm.UIMA: f"export CoNLL 2002 in its place, {_COLUMNS}",
    SourceForm.BMES: "write I- in place of M-, such as by `sed -E 's/([[:blank:]])M-([^[:blank:]]+)$/\\1I-\\2/'`, "
    f"{_COLUMNS}",
    SourceForm.BRACKETS: f"write B-PER, I-PER, O in place of (PER*, *), *, {_COLUMNS}",
    SourceForm.DATATURKS: f"write its points, whose end is one more, as {_RECORDS} reads it",
    SourceForm.STAND_OFF: f"write its tags as {_RECORDS} reads it",
    SourceForm.I2B2: f"write note and concepts as {_RECORDS} reads it; for the texts alone, take out the .con files",
    SourceForm.COMPREHEND: f"it has no text, so write each text and its entities as {_RECORDS} reads it",
    SourceForm.GROBID_RESULT: "it has fields without the words between them, so take GROBID's training files "
    "(createTraining), and `concord ingest xml` reads them",
    SourceForm.PACKED: "unpack it, and give what is in it",
    SourceForm.CSV_WORDS: "write word and label between tabs, and a blank line before each sentence, "
    "and `concord ingest columns --set separator=tab` reads it",
    SourceForm.CSV_LABELS: f"export JSON in its place, or write {_RECORDS} reads it; {_TEXTS_ALONE}",
    SourceForm.PARQUET_SPANS: f"write its records as lines of JSON, and `concord ingest spans` reads them; "
    f"{_TEXTS_ALONE}",
    SourceForm.SLASHED: "write word and label between tabs, such as by `sed -E "
    "'s,([^[:blank:]]+)/([^/[:blank:]]+)[[:blank:]]*,\\1\\t\\2\\n,g'`, and `concord ingest columns "
    "--set separator=tab --set scheme=plain` reads it",
    SourceForm.INLINE_TAGS: "write each line as a record of XML, such as by `sed "
    "'s,.*,<record>&</record>,; 1s,^,<records>,; $s,$,</records>,'` into a file .xml, and `concord ingest xml "
    "--set record=record` reads it; for the texts alone, take the tags out",
}
"""What to do with a file of each form, so that its labels are kept."""

_PACKED = (b"\x1f\x8b", b"PK\x03\x04", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf\x27\x1c")
_PACKED_SUFFIXES = (".gz", ".zip", ".bz2", ".xz", ".zst", ".tgz", ".7z")
_BRACKET = re.compile(r"\*\)?|\([A-Za-z][\w-]*\*?\)?")
_SLASHED_WORD = re.compile(r"[^\s/][^\s]*/[A-Za-z_][\w-]*")
_TAGGED_WORDS = re.compile(r"<([A-Za-z_][\w-]*)>[^<>\n]+</\1>")
_HTML = frozenset(
    re.findall(
        r"\w+",
        "a abbr b blockquote body center cite code dd del div dl dt em font h1 h2 h3 h4 h5 h6 head html i ins kbd li "
        "mark ol p pre q s samp script small span strike strong style sub sup table td th title tr tt u ul",
    )
)
"""Elements of pages, which are no labels."""
_CSV_ROWS = 50
"""Rows of a CSV file that are looked at."""


def is_packed(path: Path, head: bytes) -> bool:
    """Is it a packed file? Some files of office programs are packed too, and are none by their name."""
    return path.suffix.lower() in _PACKED_SUFFIXES and head.startswith(_PACKED)


def is_concepts(path: Path) -> bool:
    """Is it a file of i2b2's concepts beside a note, or the note?"""
    note, concepts = path.with_suffix(".txt"), path.with_suffix(".con")
    return path in (note, concepts) and note.exists() and concepts.exists()


def unread_text(text: str) -> SourceForm | None:
    """The form of a file that begins with a text, if no reader takes it."""
    return next((form for looks, form in _LOOKS if looks(text)), None)


def unread_words(text: str) -> SourceForm | None:
    """The form of a text that is of none which a reader takes, if its words have labels all the same."""
    words = text.split()
    if len(words) > 1 and all(map(_SLASHED_WORD.fullmatch, words)):
        return SourceForm.SLASHED
    names = {match[1].lower() for match in _TAGGED_WORDS.finditer(text)}
    return SourceForm.INLINE_TAGS if names - _HTML and not names & _HTML else None


def _is_webanno(text: str) -> bool:
    return re.match(r"\s*#FORMAT=WebAnno TSV", text) is not None or (
        re.search(r"(?m)^#Text=", text) is not None and re.search(r"(?m)^\d+-\d+\t\d+-\d+\t", text) is not None
    )


def _is_uima(text: str) -> bool:
    opening = text.lstrip()[:2000]
    in_json = opening.startswith("{") and re.search(r'"(%FEATURE_STRUCTURES|_referenced_fss)"\s*:', text) is not None
    return in_json or re.match(r"(<\?xml[^>]*>\s*)?<(xmi:XMI|CAS)\b", opening) is not None


def _is_stand_off(text: str) -> bool:
    return re.match(r"\s*(<\?xml[^>]*>\s*)?<[\w.-]+[^>]*>\s*<TEXT>", text) is not None


def _is_grobid_result(text: str) -> bool:
    return re.match(r"\s*(<\?xml[^>]*>\s*)?<TEI\b", text) is not None and "<teiHeader" in text and "<biblStruct" in text


def _is_data_turks(text: str) -> bool:
    return (
        text.lstrip()[:1] in ("{", "[")
        and re.search(
            r'"annotation"\s*:\s*\[\s*\{[^][{}]*(\[[^][]*\])?[^][{}]*'
            r'"points"\s*:\s*\[',
            text,
        )
        is not None
    )


def _is_comprehend(text: str) -> bool:
    return text.lstrip()[:1] == "{" and re.search(r'"Entities"\s*:\s*\[\s*\{\s*"BeginOffset"', text) is not None


def _is_bmes(text: str) -> bool:
    labels = _last_columns(text)
    marked = [label for label in labels if re.match(r"[BMEIS]-.", label)]
    return any(label.startswith("M-") for label in marked) and len(marked) + labels.count(OUTSIDE) >= len(labels) - 1


def _is_bracketed(text: str) -> bool:
    if text.startswith("#begin document ("):
        return True
    labels = _last_columns(text)
    return any(label.startswith("(") for label in labels) and all(_BRACKET.fullmatch(label) for label in labels)


def _last_columns(text: str) -> list[str]:
    """The last columns of a text's lines; none where a line has but one column."""
    rows = [line.split() for line in text.splitlines() if line.strip() and not re.match(r"#+ |-DOCSTART-", line)]
    return [row[-1] for row in rows] if all(len(row) > 1 for row in rows) else []


_LOOKS: tuple[tuple[Callable[[str], bool], SourceForm], ...] = (
    (_is_webanno, SourceForm.WEBANNO),
    (_is_uima, SourceForm.UIMA),
    (_is_stand_off, SourceForm.STAND_OFF),
    (_is_grobid_result, SourceForm.GROBID_RESULT),
    (_is_data_turks, SourceForm.DATATURKS),
    (_is_comprehend, SourceForm.COMPREHEND),
    (_is_bmes, SourceForm.BMES),
    (_is_bracketed, SourceForm.BRACKETS),
)


def csv_form(text: str) -> SourceForm:
    """The form of a CSV file that begins with a text: of texts, or one whose labels nothing reads."""
    separator = max(",;\t|", key=text.partition("\n")[0].count)
    try:
        rows = list(islice(csv.reader(text.splitlines(keepends=True), delimiter=separator), _CSV_ROWS))
    except csv.Error:
        return SourceForm.CSV
    columns = [[cell.strip() for cell in cells if cell.strip()] for cells in zip(*rows[1:], strict=False)]
    if any(_is_tags(cells) for cells in columns):
        return SourceForm.CSV_WORDS
    return SourceForm.CSV_LABELS if any(_is_listed(cell) for cells in columns for cell in cells) else SourceForm.CSV


def _is_tags(cells: Sequence[str]) -> bool:
    """Are the cells of a column labels of words?"""
    marked = [cell for cell in cells if cell.startswith(SPAN_PREFIXES)]
    return bool(marked) and len(marked) + cells.count(OUTSIDE) == len(cells)


def _is_listed(cell: str) -> bool:
    """Is a cell a list with something in it, of JSON or of Python?"""
    if not (cell.startswith("[") and cell.endswith("]")):
        return False
    try:
        value = ast.literal_eval(re.sub(r"\b(null|true|false)\b", "None", cell))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False
    return bool(value) and all(isinstance(item, dict | list | tuple | str) for item in value)


def parquet_form(path: Path) -> SourceForm:
    """The form of a Parquet file: one of words or texts, or one whose spans nothing reads."""
    try:
        schema: pa.Schema = pq.read_schema(path)
    except (pa.ArrowException, OSError):
        return SourceForm.PARQUET  # a damaged one is told by its reader
    if any(name in schema.names for name in LABEL_NAMES) or any(b"concord" in key for key in schema.metadata or {}):
        return SourceForm.PARQUET
    return SourceForm.PARQUET_SPANS if any(map(_is_spans, _kinds(schema))) else SourceForm.PARQUET


def _kinds(schema: pa.Schema) -> Iterable[Any]:
    return (field.type.value_type if pa.types.is_list(field.type) else field.type for field in schema)


def _is_spans(kind: Any) -> bool:
    return pa.types.is_struct(kind) and {"start", "end"} <= {kind.field(n).name for n in range(kind.num_fields)}
