"""Forms of other programs that no reader takes: how each is known, and what to export or write in its place."""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from concord.schemas.columns import LABEL_NAMES
from concord.schemas.labels import OUTSIDE, SPAN_PREFIXES
from concord.workers.corpus.readers.reader import FileStart, SourceForm, in_text

_COLUMNS = "and `concord ingest columns` reads it"
_RECORDS = '{"text": "Ann ran.", "spans": [{"start": 0, "end": 3, "label": "PER"}]} a line, and `concord ingest spans`'
_TEXTS_ALONE = "for the texts alone: `concord ingest text` with --set text_column=NAME"

PARQUET_MAGIC = b"PAR1"
_PACKED = (b"\x1f\x8b", b"PK\x03\x04", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf\x27\x1c")
PACKED_SUFFIXES = (".gz", ".zip", ".bz2", ".xz", ".zst", ".tgz", ".7z")
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


def _is_packed(start: FileStart) -> bool:
    """Is it a packed file? Some files of office programs are packed too, and are none by their name."""
    return start.path.suffix.lower() in PACKED_SUFFIXES and start.head.startswith(_PACKED)


def _is_concepts(start: FileStart) -> bool:
    """Is it a file of i2b2's concepts beside a note, or the note?"""
    note, concepts = start.path.with_suffix(".txt"), start.path.with_suffix(".con")
    return start.path in (note, concepts) and note.exists() and concepts.exists()


def _is_slashed(text: str) -> bool:
    words = text.split()
    return len(words) > 1 and all(map(_SLASHED_WORD.fullmatch, words))


def _is_tagged(text: str) -> bool:
    names = {match[1].lower() for match in _TAGGED_WORDS.finditer(text)}
    return bool(names - _HTML) and not names & _HTML


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


def is_csv(start: FileStart) -> bool:
    """Is it a CSV file by its name, with text in it?"""
    return start.path.suffix.lower() == ".csv" and bool(start.text)


def _csv_columns(start: FileStart) -> list[list[str]]:
    """The cells with something in them, column by column, of the first rows of a CSV file; none for any other."""
    if not is_csv(start):
        return []
    separator = max(",;\t|", key=start.text.partition("\n")[0].count)
    try:
        rows = list(islice(csv.reader(start.text.splitlines(keepends=True), delimiter=separator), _CSV_ROWS))
    except csv.Error:
        return []
    return [[cell.strip() for cell in cells if cell.strip()] for cells in zip(*rows[1:], strict=False)]


def _has_words(start: FileStart) -> bool:
    return any(_is_tags(cells) for cells in _csv_columns(start))


def _has_lists(start: FileStart) -> bool:
    return any(_is_listed(cell) for cells in _csv_columns(start) for cell in cells)


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


def _has_spans(start: FileStart) -> bool:
    """Has a Parquet file spans, and no labels beside its words?"""
    if not start.head.startswith(PARQUET_MAGIC):
        return False
    try:
        schema: pa.Schema = pq.read_schema(start.path)
    except (pa.ArrowException, OSError):
        return False  # a damaged one is told by its reader
    if any(name in schema.names for name in LABEL_NAMES) or any(b"concord" in key for key in schema.metadata or {}):
        return False
    return any(map(_is_spans, _kinds(schema)))


def _kinds(schema: pa.Schema) -> Iterable[Any]:
    return (field.type.value_type if pa.types.is_list(field.type) else field.type for field in schema)


def _is_spans(kind: Any) -> bool:
    return pa.types.is_struct(kind) and {"start", "end"} <= {kind.field(n).name for n in range(kind.num_fields)}


def _is_label_list(text: str) -> bool:
    """Is each line a label, and one of them O?"""
    lines = text.split()
    short = all(re.fullmatch(r"O|[BIESLU]|([BIESLU][-_].+)|<.+>", line) for line in lines)
    return short and "O" in lines and len(lines) == len([line for line in text.splitlines() if line.strip()])


CSV_LABELS = SourceForm(
    "a CSV file with lists in a column, which look like labels",
    80,
    _has_lists,
    f"export JSON in its place, or write {_RECORDS} reads it; {_TEXTS_ALONE}",
)
PARQUET_SPANS = SourceForm(
    "a Parquet file with spans in a column",
    30,
    _has_spans,
    f"write its records as lines of JSON, and `concord ingest spans` reads them; {_TEXTS_ALONE}",
)
UNREAD_FORMS = (
    SourceForm("WebAnno TSV", 100, in_text(_is_webanno), f"export CoNLL 2002 in its place, {_COLUMNS}"),
    SourceForm("a UIMA CAS", 110, in_text(_is_uima), f"export CoNLL 2002 in its place, {_COLUMNS}"),
    SourceForm(
        "a column file in BMES",
        160,
        in_text(_is_bmes),
        f"write I- in place of M-, such as by `sed -E 's/([[:blank:]])M-([^[:blank:]]+)$/\\1I-\\2/'`, {_COLUMNS}",
    ),
    SourceForm(
        "a column file with brackets, as CoNLL-2012's",
        170,
        in_text(_is_bracketed),
        f"write B-PER, I-PER, O in place of (PER*, *), *, {_COLUMNS}",
    ),
    SourceForm(
        "DataTurks' JSON",
        140,
        in_text(_is_data_turks),
        f"write its points, whose end is one more, as {_RECORDS} reads it",
    ),
    SourceForm(
        "XML of a text with stand-off tags, as i2b2's",
        120,
        in_text(_is_stand_off),
        f"write its tags as {_RECORDS} reads it",
    ),
    SourceForm(
        "i2b2's note with concepts beside it",
        20,
        _is_concepts,
        f"write note and concepts as {_RECORDS} reads it; for the texts alone, take out the .con files",
    ),
    SourceForm(
        "output of AWS Comprehend",
        150,
        in_text(_is_comprehend),
        f"it has no text, so write each text and its entities as {_RECORDS} reads it",
    ),
    SourceForm(
        "TEI of GROBID's results",
        130,
        in_text(_is_grobid_result),
        "it has fields without the words between them, so take GROBID's training files "
        "(createTraining), and `concord ingest xml` reads them",
    ),
    SourceForm("a packed file", 50, _is_packed, "unpack it, and give what is in it"),
    SourceForm(
        "a CSV file of a word a row",
        70,
        _has_words,
        "write word and label between tabs, and a blank line before each sentence, "
        "and `concord ingest columns --set separator=tab` reads it",
    ),
    CSV_LABELS,
    PARQUET_SPANS,
    SourceForm(
        "a text of words with a slash and a label, as libpostal's",
        320,
        in_text(_is_slashed),
        "write word and label between tabs, such as by `sed -E "
        "'s,([^[:blank:]]+)/([^/[:blank:]]+)[[:blank:]]*,\\1\\t\\2\\n,g'`, and `concord ingest columns "
        "--set separator=tab --set scheme=plain` reads it",
    ),
    SourceForm(
        "a text with inline tags",
        330,
        in_text(_is_tagged),
        "write each line as a record of XML, such as by `sed "
        "'s,.*,<record>&</record>,; 1s,^,<records>,; $s,$,</records>,'` into a file .xml, and `concord ingest xml "
        "--set record=record` reads it; for the texts alone, take the tags out",
    ),
)
"""Forms with what to do with a file, so that its labels are kept."""
LABEL_LIST = SourceForm("a list of labels, one a line", 270, in_text(_is_label_list))
"""Form of files in which there is nothing to read."""
