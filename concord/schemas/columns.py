"""Versioned Arrow schemas of corpora, predictions, times and rejects, checked on read and on write.

One row is one document. The layout's name and version are in the Parquet schema metadata.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from concord.schemas.document import TOKENS, Batch, Column, Document, ScoreColumn, SourceSpans, TokenizedTexts
from concord.schemas.errors import InputError
from concord.schemas.gold_columns import in_bio
from concord.schemas.names import nearest
from concord.schemas.potentials import LARGEST_WEIGHT

NAME_KEY = b"concord.schema"
VERSION_KEY = b"concord.version"
COLUMNS_KEY = b"concord.columns"
"""Token columns of a corpus beyond `tokens`, `pos` and `chunk`, separated by commas."""
TOKENIZER_KEY = b"concord.tokenizer"
"""Tokenizer of a corpus whose reader cut its texts, as NAME==VERSION."""
LABELS_KEY, LABELS_ARE_PLAIN = b"concord.labels", b"plain"
"""Scheme of a corpus's gold labels; ``plain``: each is a type by itself, whatever its name looks like."""

DOC_ID, SENTENCE_STARTS, LABELS, TEXT = "doc_id", "sentence_starts", "labels", "text"
TOKEN_START, TOKEN_END = "token_start", "token_end"
OFFSETS = (TEXT, TOKEN_START, TOKEN_END)
SPAN_TYPE, SPAN_START, SPAN_END = "span_type", "span_start", "span_end"
SOURCE_SPANS = (SPAN_TYPE, SPAN_START, SPAN_END)
"""Columns of the source's gold spans of characters: one value for each span."""

PROBABILITY, MARGIN, MARGIN_STATUS = "entity_probability", "entity_margin", "margin_status"
"""Columns of confidence in predictions, if it was asked for: one value for each entity."""

N_BEST, N_BEST_BOUND = "n_best", "n_best_bound"
"""Columns of the best labellings in predictions, if they were asked for: the list, and an upper bound in nats for all
other labellings."""

VITERBI_LABELS, VITERBI_LOCAL, VITERBI_PENALTY = "viterbi_labels", "viterbi_local", "viterbi_penalty"
"""Extra columns of predictions: the chain's own answer, so that every change can be explained; its local score, and its
penalty under the constraints, in nats."""
VITERBI_CONSTRAINTS, DOCUMENT_DIGEST, SETTLED = "viterbi_constraints", "document_digest", "settled"
"""Extra columns of predictions, for the next run: each constraint under the Viterbi labels, and whether it has rows or
pairs in the document; the digest of the document's row; whether no other labelling comes near the answer."""

STRINGS = pa.list_(pa.string())
INTEGERS = pa.list_(pa.int32())
ENTITY = pa.struct(
    [
        ("type", pa.string()),
        ("start", pa.int32()),
        ("end", pa.int32()),
        ("char_start", pa.int32()),
        ("char_end", pa.int32()),
        ("text", pa.string()),
    ]
)
"""A span: tokens and, for raw text, characters (code points), end exclusive."""
RANKED = pa.struct([("score", pa.float64()), ("gap", pa.float64()), ("proven", pa.bool_()), (LABELS, STRINGS)])
"""One of the best labellings of a document: score in nats, nats below the first, is its rank proven?, and labels."""
VIOLATION = pa.struct([("name", pa.string()), ("degree", pa.float64()), ("penalty", pa.float64())])
CHARGE = pa.struct([*VIOLATION, ("grounded", pa.bool_())])
"""What a constraint charges the Viterbi labels, and whether it has rows or pairs in the document."""


MOST_DIGITS = 9
"""Largest number of digits of a layout's version, since Python refuses numbers of thousands of digits."""


class SchemaError(InputError):
    """A file whose columns are not those of its layout: names file, column, types and remedy."""


class Reject(NamedTuple):
    """A document that was not processed.

    - ``source``: file.
    - ``row``: row of a Parquet file from 0, or line of a text from 1; None where it is not known.
    - ``reason``: why not.
    """

    source: str
    row: int | None
    doc_id: str | None
    reason: str

    @property
    def line(self) -> str:
        """Place and reason, for messages."""
        return f"{self.source}, {'a row' if self.row is None else f'row {self.row}'}: {self.reason}"


class Misfit(NamedTuple):
    """A gold span that token labels cannot express as it is; ``row`` as in `Reject`.

    ``reason`` says what is wrong with such spans and what happens to them; it continues a sentence that begins "spans".
    One that is not ``in_text`` has no place there, and is not among the spans that its document keeps.
    """

    source: str
    row: int
    doc_id: str
    reason: str
    in_text: bool = True


class Notice(NamedTuple):
    """What a user should know of a source that was read; ``reason`` says it, and what to do if it is not meant."""

    source: str
    reason: str


@dataclass(frozen=True)
class Layout:
    """Columns of one kind of file.

    - ``required``, ``optional``: columns that must be there, and that may be there.
    - ``remedy``: what the user can do to get such a file.
    - ``implied``: required columns that may be missing in files of other programs, see `batch_from_table`.
    """

    name: str
    version: int
    required: pa.Schema
    optional: pa.Schema
    remedy: str
    implied: tuple[str, ...] = ()

    @property
    def metadata(self) -> dict[bytes, bytes]:
        """Metadata that identifies the layout in a Parquet file: its name and version."""
        return {NAME_KEY: self.name.encode(), VERSION_KEY: str(self.version).encode()}


CORPUS_LAYOUT = Layout(
    "corpus",
    1,
    pa.schema([(DOC_ID, pa.string()), (TOKENS, STRINGS), (SENTENCE_STARTS, INTEGERS)]),
    pa.schema(
        [
            ("pos", STRINGS),
            ("chunk", STRINGS),
            (LABELS, STRINGS),
            (TEXT, pa.string()),
            (TOKEN_START, INTEGERS),
            (TOKEN_END, INTEGERS),
            (SPAN_TYPE, STRINGS),
            (SPAN_START, INTEGERS),
            (SPAN_END, INTEGERS),
        ]
    ),
    "run `concord ingest` to make a corpus, or give the file this column",
    (SENTENCE_STARTS,),
)
PREDICTIONS_LAYOUT = Layout(
    "predictions",
    2,
    pa.schema(
        [
            (DOC_ID, pa.string()),
            (TOKENS, STRINGS),
            (SENTENCE_STARTS, INTEGERS),
            (LABELS, STRINGS),
            ("entities", pa.list_(ENTITY)),
            ("engine", pa.string()),
            ("local", pa.float64()),
            ("penalty", pa.float64()),
            ("objective", pa.float64()),
            ("bound", pa.float64()),
            ("gap", pa.float64()),
            ("status", pa.string()),
            ("certified", pa.bool_()),
            ("constraints", pa.list_(VIOLATION)),
            ("model_digest", pa.string()),
            ("constraint_digest", pa.string()),
        ]
    ),
    pa.schema(
        [
            (PROBABILITY, pa.list_(pa.float64())),
            (MARGIN, pa.list_(pa.float64())),
            (MARGIN_STATUS, STRINGS),
            (N_BEST, pa.list_(RANKED)),
            (N_BEST_BOUND, pa.float64()),
        ]
    ),
    "give the folder that `concord reprocess` wrote",
)
PREDICTION_COLUMNS = frozenset(
    {
        *PREDICTIONS_LAYOUT.required.names,
        *PREDICTIONS_LAYOUT.optional.names,
        *(VITERBI_LABELS, VITERBI_LOCAL, VITERBI_PENALTY, VITERBI_CONSTRAINTS, DOCUMENT_DIGEST, SETTLED),
    }
)
"""Names of all columns that concord itself gives to predictions."""

CERTIFICATES_LAYOUT = Layout(
    "certificates",
    1,
    pa.schema([(DOC_ID, pa.string()), ("proof", pa.list_(pa.int64()))]),
    pa.schema([]),
    "give the folder that `concord reprocess --engine certify --certificates` wrote",
)
TIMES_LAYOUT = Layout(
    "times",
    2,
    pa.schema([(DOC_ID, pa.string()), ("seconds", pa.float64()), ("cpu_seconds", pa.float64()), ("work", pa.int64())]),
    pa.schema([]),
    "give the folder that `concord reprocess` wrote",
)
REJECTS_LAYOUT = Layout(
    "rejects",
    1,
    pa.schema([("source", pa.string()), ("row", pa.int64()), (DOC_ID, pa.string()), ("reason", pa.string())]),
    pa.schema([]),
    "give a rejects file that `concord ingest` or `concord reprocess` wrote",
)


def check(schema: pa.Schema, layout: Layout, *, source: str, written: bool = False) -> None:
    """Raises `SchemaError` where a file's schema is not the layout's; other columns are allowed.

    A file without concord's metadata is judged by its columns alone. Dictionary-encoded and
    large variants of a type, and any signed integer, are fine. What is to be ``written`` must have every column. All
    columns that are missing are in one message. An optional column of another type is as good as missing.
    """
    metadata = schema.metadata or {}
    name = metadata.get(NAME_KEY, layout.name.encode()).decode(errors="replace")
    if name != layout.name:
        raise SchemaError(f"{source}: this is a {name} file, not a {layout.name} file; {layout.remedy}")
    version = metadata.get(VERSION_KEY, b"1").decode(errors="replace")
    if not version.isdecimal() or len(version) > MOST_DIGITS or int(version) > layout.version:
        raise SchemaError(
            f"{source}: {layout.name} version {version[:MOST_DIGITS]}, this concord reads up to {layout.version}; "
            "upgrade concord"
        )
    missing = [
        field
        for field in layout.required
        if schema.get_field_index(field.name) < 0 and (written or not _is_implied(schema, layout, field))
    ]
    if missing:
        absent_columns = ", and ".join(f"{absent(schema, field.name)} (want {field.type})" for field in missing)
        raise SchemaError(f"{source}: {absent_columns}; {_other_names(schema, layout, source) or layout.remedy}")
    for field in [*layout.required, *layout.optional, *(pa.field(n, STRINGS) for n in _extra_columns(schema))]:
        place = schema.get_field_index(field.name)
        if field in layout.optional and layout is CORPUS_LAYOUT and not written:
            continue
        if place >= 0 and _plain(schema.field(place).type) != _plain(field.type):
            raise SchemaError(
                f"{source}: column {field.name!r} has type {schema.field(place).type}, want {field.type}; write the "
                f"column with that type, or {layout.remedy}"
            )


def _is_implied(schema: pa.Schema, layout: Layout, field: pa.Field) -> bool:
    return field.name in layout.implied and not schema.get_all_field_indices(field.name)


TOKEN_NAMES, LABEL_NAMES, ID_NAMES = (TOKENS, "words"), (LABELS, "ner_tags", "tags", "ner"), (DOC_ID, "id")
"""Names that other programs give to columns of tokens, of gold labels and of document ids."""


def _other_names(schema: pa.Schema, layout: Layout, source: str) -> str:
    """The command that reads a file of another program as a corpus; empty where it cannot be told."""
    if layout is not CORPUS_LAYOUT or named_column(schema, TOKEN_NAMES, STRINGS) is None:
        return ""
    return f"`concord ingest parquet {source} --out FOLDER` makes a corpus of it"


def named_column(schema: pa.Schema, names: Sequence[str], kind: pa.DataType | None = None) -> str | None:
    """The first of some names that a column has once, of a type if one is given; None if none has."""
    for name in names:
        if len(schema.get_all_field_indices(name)) == 1 and (kind is None or _plain(schema.field(name).type) == kind):
            return name
    return None


def class_names(schema: pa.Schema, column: str) -> tuple[str, ...] | None:
    """Names of the numbers in a column, as Hugging Face's metadata has them; None without such."""
    try:
        features = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
        feature = features[column]
        names = (feature.get("feature") or feature)["names"]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return tuple(names) if isinstance(names, list) and all(isinstance(name, str) and name for name in names) else None


def is_numbered(kind: pa.DataType) -> bool:
    """Is it a type of lists of whole numbers?"""
    return _is_list(kind) and pa.types.is_integer(kind.value_type)


def named_labels(column: pa.ChunkedArray, names: Sequence[str]) -> pa.ChunkedArray:
    """A column of lists of numbers as lists of the names that these numbers have; −1 and other numbers are null."""
    array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    rows = [None if row is None else [_name(i, names) for i in row] for row in array.to_pylist()]
    return pa.chunked_array([pa.array(rows, STRINGS)])


def _name(number: int | None, names: Sequence[str]) -> str | None:
    return names[number] if number is not None and 0 <= number < len(names) else None


def absent(schema: pa.Schema, name: str) -> str:
    """Message for a column that is missing or there twice, with the name that may have been meant."""
    if len(schema.get_all_field_indices(name)) > 1:
        return f"column {name!r} is there twice"
    return f"column {name!r} is missing{nearest(name, dict.fromkeys(schema.names))}"


def check_scores(schema: pa.Schema, scores: ScoreColumn, *, source: str) -> None:
    """Raises `SchemaError` if a file has no such column of scores: lists of lists of floats."""
    place = schema.get_field_index(scores.name)
    if place < 0:
        raise SchemaError(
            f"{source}: {absent(schema, scores.name)}, and the model reads its scores from it; "
            "add it (list<list<float>>, a list a token), or use a model that scores tokens itself"
        )
    found = schema.field(place).type
    if not (_is_list(found) and _is_list(found.value_type) and pa.types.is_floating(found.value_type.value_type)):
        raise SchemaError(
            f"{source}: column {scores.name!r} has type {found}, want list<list<float>>: a list of scores a token"
        )


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def stamp(table: pa.Table, layout: Layout, *, source: str = "table to be written") -> pa.Table:
    """The table with the layout's name and version in its metadata, checked: call before writing."""
    own = {k: v for k, v in (table.schema.metadata or {}).items() if k in (COLUMNS_KEY, LABELS_KEY)}
    stamped = table.replace_schema_metadata(layout.metadata | own)
    check(stamped.schema, layout, source=source, written=True)
    return stamped


def token_columns(schema: pa.Schema) -> list[str]:
    """Names of a corpus's token columns, `tokens` first, without the gold labels."""
    names = ["pos", "chunk", *_extra_columns(schema)]
    return [TOKENS, *(n for n in dict.fromkeys(names) if _fits(schema, n))]


def _fits(schema: pa.Schema, name: str) -> bool:
    """Does a file have the column, of the type that it must have?"""
    place = schema.get_field_index(name)
    if place < 0:
        return False
    kind = schema.field(place).type
    if name == LABELS and is_numbered(kind):
        return class_names(schema, name) is not None
    wanted = CORPUS_LAYOUT.optional.get_field_index(name)
    other = CORPUS_LAYOUT.required.get_field_index(name)
    if wanted < 0 and other < 0:
        return bool(_plain(kind) == STRINGS)
    field = CORPUS_LAYOUT.optional.field(wanted) if wanted >= 0 else CORPUS_LAYOUT.required.field(other)
    return bool(_plain(kind) == _plain(field.type))


def gold_fault(schema: pa.Schema) -> str | None:
    """Why a file has no gold labels, for messages; None if it has."""
    if _fits(schema, LABELS):
        return None
    place = schema.get_field_index(LABELS)
    if place < 0:
        return absent(schema, LABELS)
    if is_numbered(schema.field(place).type):
        return (
            f"column {LABELS!r} has numbers, and the file does not name them (--set label_names= of `ingest parquet`)"
        )
    return f"column {LABELS!r} has type {schema.field(place).type}, want {STRINGS}"


def corpus_columns(schema: pa.Schema) -> list[str]:
    """Names of the columns of a corpus file that a batch is made of, in the layout's order."""
    names = [DOC_ID, SENTENCE_STARTS, *token_columns(schema), LABELS]
    if all(_fits(schema, n) for n in OFFSETS):
        names += OFFSETS
        if all(_fits(schema, n) for n in SOURCE_SPANS):
            names += SOURCE_SPANS
    return [n for n in names if _fits(schema, n)]


def _extra_columns(schema: pa.Schema) -> list[str]:
    listed = (schema.metadata or {}).get(COLUMNS_KEY, b"").decode(errors="replace")
    return [n for n in listed.split(",") if n]


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type without dictionary encoding, view or width, for comparison."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_signed_integer(kind):
        return pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([(f.name, _plain(f.type)) for f in kind])
    return kind


# Corpus tables


def table_from_batch(batch: Batch) -> pa.Table:
    """A stamped corpus table (D rows) of a batch: the inverse of `batch_from_table`, without scores."""
    data: dict[str, pa.Array] = {
        DOC_ID: pa.array(batch.doc_ids, pa.string()),
        TOKENS: nest(batch.columns[TOKENS], batch.doc_starts),
        SENTENCE_STARTS: sentence_lists(batch),
    }
    data |= {n: nest(c, batch.doc_starts) for n, c in sorted(batch.columns.items()) if n != TOKENS}
    if batch.labels is not None:
        data[LABELS] = nest(batch.labels, batch.doc_starts)
    if batch.raw is not None:
        data[TEXT] = pa.array(batch.raw.contents, pa.string())
        data[TOKEN_START] = nest(batch.raw.start, batch.doc_starts)
        data[TOKEN_END] = nest(batch.raw.end, batch.doc_starts)
    if TEXT in data and batch.source_spans is not None:
        spans = batch.source_spans
        columns: tuple[Column | NDArray[Any], ...] = (spans.type, spans.start, spans.end)
        data |= {name: nest(values, spans.starts) for name, values in zip(SOURCE_SPANS, columns, strict=True)}
    extra = [n for n in sorted(batch.columns) if n not in (TOKENS, "pos", "chunk")]
    metadata = {COLUMNS_KEY: ",".join(extra).encode()} if extra else {}
    metadata |= {LABELS_KEY: LABELS_ARE_PLAIN} if batch.labels is not None and batch.labels.plain else {}
    return stamp(pa.table(data).replace_schema_metadata(metadata), CORPUS_LAYOUT)


def sentence_lists(batch: Batch) -> pa.Array:
    """(D,) lists of the sentence starts of each document, counted from its first token."""
    sentences = np.searchsorted(batch.sentence_starts, batch.doc_starts)
    return nest(batch.sentence_starts - np.repeat(batch.doc_starts[:-1], np.diff(sentences)), sentences)


def table_from_documents(documents: Sequence[Document]) -> pa.Table:
    """A stamped corpus table of documents that have the same columns (`ValueError` otherwise)."""
    return table_from_batch(Batch.of(documents))


def nest(values: Column | NDArray[Any], starts: NDArray[np.int64]) -> pa.Array:
    """A list array: ``values[starts[i]:starts[i + 1]]`` is row i."""
    flat: pa.Array
    if isinstance(values, Column):
        flat = pa.DictionaryArray.from_arrays(values.codes, pa.array(values.values, pa.string())).dictionary_decode()
    else:
        flat = pa.array(values.astype(np.int32))
    return pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), flat)


# Rejects


def rejects_table(rejects: Sequence[Reject]) -> pa.Table:
    """A stamped table of rejects, in the order given."""
    rows = [r._asdict() for r in rejects]
    return stamp(pa.Table.from_pylist(rows, schema=REJECTS_LAYOUT.required), REJECTS_LAYOUT)


# Corpus tables to batches


class ListColumn(NamedTuple):
    """A list column.

    - ``present``: mask of the rows that are not null
    - ``starts``: where each row starts in ``values``
    - ``values``: the values of all rows
    """

    present: NDArray[np.bool_]
    starts: NDArray[np.int64]
    values: pa.Array

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Self:
        """Of a column of lists."""
        array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
        lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
        starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        return cls(_mask(array.is_valid()), starts, array.flatten())

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(D,) number of values of each row."""
        return np.diff(self.starts)

    def rows(self, hits: NDArray[np.int64] | NDArray[np.bool_]) -> NDArray[np.int64]:
        """The rows that hold the values at these places, or marked in a mask, each once."""
        return np.unique(np.searchsorted(self.starts, _numbers(hits), side="right") - 1)

    def integers(self) -> NDArray[np.int64]:
        """The values; −1 stands for null."""
        numbers: NDArray[np.int64] = self.values.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        return numbers

    def floats(self) -> NDArray[np.float64]:
        """The values; NaN stands for null."""
        numbers: NDArray[np.float64] = self.values.cast(pa.float64()).to_numpy(zero_copy_only=False)
        return numbers

    def encoded(self) -> pa.DictionaryArray:
        """Strings, dictionary-encoded."""
        values = self.values
        if not pa.types.is_dictionary(values.type):
            values = values.cast(pa.string()).dictionary_encode()
        return values


def _numbers(places: NDArray[np.int64] | NDArray[np.bool_]) -> NDArray[np.int64]:
    return np.flatnonzero(places) if places.dtype == np.bool_ else places.astype(np.int64, copy=False)


class _Faults:
    """The first fault found in each row of a table."""

    def __init__(self) -> None:
        self.reasons: dict[int, str] = {}

    def add(self, rows: NDArray[np.int64] | NDArray[np.bool_], reason: str) -> None:
        """``rows`` are row numbers, or a mask over the rows."""
        for row in _numbers(rows).tolist():
            self.reasons.setdefault(row, reason)


NO_FAULTS: Mapping[int, str] = MappingProxyType({})


def batch_from_table(
    table: pa.Table,
    *,
    source: str = "table",
    first_row: int = 0,
    known_faults: Mapping[int, str] = NO_FAULTS,
    scores: ScoreColumn | None = None,
) -> tuple[Batch, list[Reject]]:
    """The good rows of a corpus table as a batch, and a reject for every other row, in row order.

    - ``source``, ``first_row``: file, and the row in it at which the table begins.
    - ``known_faults``: reason by row of the table, for faults that the row itself does not show.
    - ``scores``: a column that is read beside those of the layout.

    A file of another program may have no sentences: each document is one then; and numbers as labels, if its metadata
    names them. Gold labels are all there or all null: a row without labels among labelled rows is rejected. They come
    out as BIO where they are of a scheme of spans, see `in_bio`. Raises `SchemaError` if a column is missing or of
    another type.
    """
    check(table.schema, CORPUS_LAYOUT, source=source)
    if scores is not None:
        check_scores(table.schema, scores, source=source)
    table = table.select([*corpus_columns(table.schema), *([] if scores is None else [scores.name])])
    if SENTENCE_STARTS not in table.column_names:
        table = table.append_column(SENTENCE_STARTS, pa.array([[0]] * len(table), INTEGERS))
    if LABELS in table.column_names and is_numbered(table.schema.field(LABELS).type):
        named = named_labels(table[LABELS], class_names(table.schema, LABELS) or ())
        table = table.set_column(table.schema.get_field_index(LABELS), LABELS, named)
    if LABELS in table.column_names and table[LABELS].null_count == len(table):
        table = table.drop_columns([LABELS])
    if SPAN_TYPE in table.column_names and table[SPAN_TYPE].null_count == len(table):
        table = table.drop_columns(list(SOURCE_SPANS))
    faults = {**known_faults, **_find_faults(table, scores)}
    keep = np.ones(len(table), np.bool_)
    keep[list(faults)] = False
    batch = _assemble(table.filter(pa.array(keep)) if faults else table, scores)
    broken = _broken_gold(batch)
    if broken:
        rows = np.flatnonzero(keep)
        faults |= {int(rows[place]): reason for place, reason in broken.items()}
        keep[rows[list(broken)]] = False
        batch = _assemble(table.filter(pa.array(keep)), scores)
    if batch.labels is not None:
        batch = replace(batch, labels=in_bio(batch.labels, batch.doc_starts, batch.sentence_starts).column)
    names = decode(table[DOC_ID]) if faults else []
    return batch, [Reject(source, first_row + row, names[row], reason) for row, reason in sorted(faults.items())]


def _broken_gold(batch: Batch) -> dict[int, str]:
    """Reason by document, where gold labels contradict each other."""
    return {} if batch.labels is None else in_bio(batch.labels, batch.doc_starts, batch.sentence_starts).faults


def raw_strings(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A string column as bytes, so that strings that are not UTF-8 can be looked at."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.large_string()).cast(pa.large_binary())


def decode(column: pa.ChunkedArray) -> list[str | None]:
    """Strings of a column, with None for null and for strings that are not UTF-8."""
    return [_utf8(raw) for raw in raw_strings(column).to_pylist()]


def string_faults(column: pa.ChunkedArray, name: str) -> dict[int, str]:
    """Reason by row, for rows of a string column that are null, empty, not UTF-8 or have a NUL character."""
    faults = _Faults()
    raw = raw_strings(column)
    faults.add(_mask(raw.is_null()), f"{name} is null")
    faults.add(_mask(pc.equal(pc.binary_length(raw), 0)), f"{name} is empty")
    faults.add(_mask(pc.match_substring(raw, "\0")), f"{name} holds a NUL character")
    broken = [row for row, value in enumerate(raw.to_pylist()) if value is not None and _utf8(value) is None]
    faults.add(np.array(broken, np.int64), f"{name} is not valid UTF-8")
    return faults.reasons


def _utf8(raw: bytes | None) -> str | None:
    if raw is None:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _mask(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = column.fill_null(fill_value=False).to_numpy(zero_copy_only=False)
    return mask


def _find_faults(table: pa.Table, scores: ScoreColumn | None) -> dict[int, str]:
    """Fault of each faulty row, by row number."""
    faults = _Faults()
    for row, reason in string_faults(table[DOC_ID], DOC_ID).items():
        faults.add(np.array([row]), reason)
    tokens = ListColumn.of(table[TOKENS])
    faults.add(~tokens.present, "tokens is null")
    faults.add(tokens.lengths == 0, "document has no tokens")
    _string_list_faults(faults, TOKENS, tokens)
    _sentence_faults(faults, ListColumn.of(table[SENTENCE_STARTS]), tokens.lengths)
    for name in [*token_columns(table.schema)[1:], *([LABELS] if LABELS in table.column_names else [])]:
        lists = ListColumn.of(table[name])
        _length_faults(faults, name, lists, tokens.lengths)
        _string_list_faults(faults, name, lists)
    if TEXT in table.column_names:
        for row, reason in string_faults(table[TEXT], TEXT).items():
            faults.add(np.array([row]), reason)
        _offset_faults(faults, table, tokens.lengths)
    if SPAN_TYPE in table.column_names:
        _source_span_faults(faults, table)
    if scores is not None:
        _score_faults(faults, scores, table[scores.name], tokens.lengths)
    return faults.reasons


def _string_list_faults(faults: _Faults, name: str, lists: ListColumn) -> None:
    values = lists.encoded()
    faults.add(lists.rows(_mask(values.is_null())), f"{name} holds a null")
    found = string_faults(pa.chunked_array([values.dictionary]), f"one of {name}")
    codes = values.indices.fill_null(-1).to_numpy()
    for reason in dict.fromkeys(found.values()):
        bad = np.array([code for code, why in found.items() if why == reason])
        faults.add(lists.rows(np.isin(codes, bad)), reason)


def _length_faults(
    faults: _Faults, name: str, lists: ListColumn, wanted: NDArray[np.int64], *, of: str = "tokens"
) -> None:
    faults.add(~lists.present, f"{name} is null")
    for row in np.flatnonzero(lists.present & (lists.lengths != wanted)).tolist():
        faults.add(np.array([row]), f"{name} has {lists.lengths[row]} values for {wanted[row]} {of}")


def _sentence_faults(faults: _Faults, starts: ListColumn, tokens: NDArray[np.int64]) -> None:
    numbers, some = starts.integers(), starts.lengths > 0
    faults.add(~starts.present | ~some, "sentence_starts is null or empty")
    faults.add(np.flatnonzero(some)[numbers[starts.starts[:-1][some]] != 0], "sentence_starts does not start at 0")
    falls = np.zeros(len(numbers), np.bool_)
    falls[1:] = np.diff(numbers) <= 0
    falls[starts.starts[:-1][some]] = False
    faults.add(starts.rows(falls), "sentence_starts does not increase")
    last = numbers[starts.starts[1:][some] - 1]
    faults.add(np.flatnonzero(some)[last >= tokens[some]], "sentence_starts goes beyond the last token")


def _offset_faults(faults: _Faults, table: pa.Table, tokens: NDArray[np.int64]) -> None:
    """Offsets have to be one a token, in order, inside the text."""
    left, right = ListColumn.of(table[TOKEN_START]), ListColumn.of(table[TOKEN_END])
    _length_faults(faults, TOKEN_START, left, tokens)
    _length_faults(faults, TOKEN_END, right, tokens)
    first, last = left.integers(), right.integers()
    sizes = [len(s or "") for s in decode(table[TEXT])]
    for row in np.flatnonzero((left.lengths == tokens) & (right.lengths == tokens)).tolist():
        a = first[left.starts[row] : left.starts[row + 1]]
        b = last[right.starts[row] : right.starts[row + 1]]
        bounds = np.concatenate([[0], np.stack([a, b], axis=1).ravel(), [sizes[row]]])
        if np.any(np.diff(bounds) < 0) or np.any(a >= b):
            faults.add(np.array([row]), "token_start and token_end do not rise inside the text")


def _source_span_faults(faults: _Faults, table: pa.Table) -> None:
    """Spans of characters have to have all three values each, and to lie inside the text."""
    kinds, left, right = (ListColumn.of(table[name]) for name in SOURCE_SPANS)
    faults.add(~kinds.present, f"{SPAN_TYPE} is null")
    _string_list_faults(faults, SPAN_TYPE, kinds)
    for name, lists in ((SPAN_START, left), (SPAN_END, right)):
        _length_faults(faults, name, lists, kinds.lengths, of="spans")
    whole = np.flatnonzero((left.lengths == kinds.lengths) & (right.lengths == kinds.lengths))
    sizes = [len(text or "") for text in decode(table[TEXT])]
    first, last = left.integers(), right.integers()
    for row in whole.tolist():
        a = first[left.starts[row] : left.starts[row + 1]]
        b = last[right.starts[row] : right.starts[row + 1]]
        if np.any((a < 0) | (a > b) | (b > sizes[row])):
            faults.add(np.array([row]), f"{SPAN_START} and {SPAN_END} do not lie inside the text")


def _score_faults(faults: _Faults, scores: ScoreColumn, column: pa.ChunkedArray, wanted: NDArray[np.int64]) -> None:
    """Scores have to be so many a token, and numbers that can be added up, or −inf where a label is forbidden."""
    name, width = scores
    rows, tokens = _scores(column)
    numbers, lengths = tokens.floats(), tokens.lengths
    _length_faults(faults, name, rows, wanted)
    faults.add(rows.rows(~tokens.present), f"{name} holds a null")
    for found in np.unique(lengths[tokens.present & (lengths != width)]).tolist():
        hits = rows.rows(tokens.present & (lengths == found))
        faults.add(hits, f"{name} has {found} scores for a token, want {width}")
    for bad, reason in (
        (_mask(tokens.values.is_null()), "holds a null"),
        (np.isnan(numbers), "holds NaN"),
        (numbers == np.inf, "holds inf; of the infinite ones -inf alone has a meaning"),
        (
            np.isfinite(numbers) & (np.abs(numbers) > LARGEST_WEIGHT),
            f"holds a score beyond {LARGEST_WEIGHT:g} nats; write -inf for what is forbidden",
        ),
    ):
        faults.add(rows.rows(tokens.rows(bad)), f"{name} {reason}")
    open_tokens = np.zeros(len(lengths), np.bool_)
    open_tokens[tokens.rows(numbers != -np.inf)] = True
    faults.add(rows.rows(~open_tokens), f"{name} forbids every label of a token")


def _scores(column: pa.ChunkedArray) -> tuple[ListColumn, ListColumn]:
    """A column of scores: the tokens of each row, and the numbers of each token."""
    rows = ListColumn.of(column)
    return rows, ListColumn.of(pa.chunked_array([rows.values]))


def _assemble(table: pa.Table, scores: ScoreColumn | None) -> Batch:
    tokens, sentences = ListColumn.of(table[TOKENS]), ListColumn.of(table[SENTENCE_STARTS])
    columns = {name: _column(table[name]) for name in token_columns(table.schema)}
    return Batch(
        tuple(table[DOC_ID].cast(pa.string()).to_pylist()),
        tokens.starts,
        sentences.integers() + np.repeat(tokens.starts[:-1], sentences.lengths),
        columns,
        _gold(table) if LABELS in table.column_names else None,
        _raw_texts(table) if TEXT in table.column_names else None,
        None if scores is None else _scores(table[scores.name])[1].floats().reshape(-1, scores.width),
        _source_spans(table) if SPAN_TYPE in table.column_names else None,
    )


def _gold(table: pa.Table) -> Column:
    return replace(_column(table[LABELS]), plain=(table.schema.metadata or {}).get(LABELS_KEY) == LABELS_ARE_PLAIN)


def _raw_texts(table: pa.Table) -> TokenizedTexts:
    start, end = (ListColumn.of(table[name]).integers().astype(np.int32) for name in (TOKEN_START, TOKEN_END))
    return TokenizedTexts(table[TEXT].to_pylist(), start, end)


def _source_spans(table: pa.Table) -> SourceSpans:
    kinds, left, right = (ListColumn.of(table[name]) for name in SOURCE_SPANS)
    start, end = (lists.integers().astype(np.int32) for lists in (left, right))
    return SourceSpans(kinds.starts, start, end, _column(table[SPAN_TYPE]))


def _column(column: pa.ChunkedArray) -> Column:
    values = ListColumn.of(column).encoded()
    # The dictionary may still hold broken strings of rejected rows.
    strings = [string or "" for string in decode(pa.chunked_array([values.dictionary]))]
    return Column(values.indices.to_numpy().astype(np.int32, copy=False), strings)
