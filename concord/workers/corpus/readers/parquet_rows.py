"""Parquet files of other programs: tokens, labels and ids under other names, labels as numbers, no sentences."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa

from concord.schemas.columns import (
    COLUMNS_KEY,
    DOC_ID,
    ID_NAMES,
    LABEL_NAMES,
    LABELS,
    SENTENCE_STARTS,
    TOKEN_NAMES,
    Notice,
    Reject,
    SchemaError,
    absent,
    batch_from_table,
    class_names,
    is_numbered,
    named_column,
    named_labels,
)
from concord.schemas.document import TOKENS, Document
from concord.schemas.label_names import has_prefix
from concord.schemas.labels import to_bio
from concord.workers.corpus.parquet import (
    has_text_form,
    ids_as_text,
    open_parquet,
    parquet_files,
    read_row_group,
    row_ids,
)
from concord.workers.corpus.readers.lines import label_fault, lone_label_fault
from concord.workers.corpus.readers.reader import ReaderEntry, ReaderItem, SourceForm
from concord.workers.corpus.readers.unread_forms import PARQUET_MAGIC, PARQUET_SPANS
from concord.workers.corpus.settings import ParquetReaderSettings

TOKEN_LISTS = pa.list_(pa.string())
NUMBERED = "rows have no ids, so these are of the file and the row"


class _ColumnRoles(NamedTuple):
    """The columns of a file by what they are; ``classes`` are the names of labels that are numbers."""

    tokens: str
    labels: str | None
    ids: str | None
    sentences: str | None
    classes: tuple[str, ...] | None


def read_parquet_rows(source: str, settings: ParquetReaderSettings) -> Iterator[ReaderItem]:
    """Documents of a Parquet file or folder (a path or URI), a row each; BIO, IOB1, BIOES and BILOU come out as BIO.

    A document without sentences is one. Where some files have gold, documents of the others are rejected. Raises
    `SchemaError` for a file without such columns, which names all that is wrong, and `CorpusError` for a damaged one.
    """
    numbered: list[str] = []
    files = [(file, open_parquet(file)) for file in parquet_files(source)]
    gold = any(_names(parquet.schema_arrow, settings, file.path).labels for file, parquet in files)
    for file, parquet in files:
        names = _names(parquet.schema_arrow, settings, file.path)
        columns = [name for name in names[:4] if name is not None]
        stem, row = file.name.removesuffix(".parquet"), 0
        for group in range(parquet.num_row_groups):
            table = read_row_group(parquet, file, group, columns)
            own = _own(table, names, stem, row)
            yield from (
                _documents(own, settings, file.path, row)
                if names.labels or not gold
                else _unlabelled(own, file.path, row)
            )
            row += len(table)
        if names.ids is None and row:
            numbered.append(file.path)
    yield from (Notice(path, NUMBERED) for path in numbered)


def _names(schema: pa.Schema, settings: ParquetReaderSettings, source: str) -> _ColumnRoles:
    faults = list[str]()

    def found(option: str, asked: str | None, names: tuple[str, ...]) -> str | None:
        if asked is None:
            return named_column(schema, names)
        if named_column(schema, (asked,)) is None:
            faults.append(f"{absent(schema, asked)} (--{option.replace('_', '-')})")
        return asked

    tokens = found("tokens_column", settings.tokens_column, TOKEN_NAMES)
    labels = found("labels_column", settings.labels_column, LABEL_NAMES) if settings.gold else None
    ids = found("id_column", settings.id_column, ID_NAMES)
    if tokens is None:
        faults.append(f"no column of tokens ({' or '.join(TOKEN_NAMES)}); name it with --tokens-column")
    elif not faults and named_column(schema, (tokens,), TOKEN_LISTS) is None:
        faults.append(f"column {tokens!r} of tokens has type {schema.field(tokens).type}, want {TOKEN_LISTS}")
    if labels is not None and labels in schema.names and pa.types.is_null(schema.field(labels).type):
        labels = None
    classes = settings.label_names or (None if labels is None else class_names(schema, labels))
    if not faults and labels is not None:
        faults += _label_faults(schema, labels, classes)
    if ids is not None and ids in schema.names and not _is_id(schema.field(ids).type):
        faults.append(f"column {ids!r} of ids has type {schema.field(ids).type}, want string or a whole number")
    if faults or tokens is None:
        there = ", ".join(f"{field.name} {field.type}" for field in schema)
        raise SchemaError(f"{source}: {'; '.join(faults)}; the file has {there}")
    return _ColumnRoles(tokens, labels, ids, named_column(schema, (SENTENCE_STARTS,)), classes)


def _label_faults(schema: pa.Schema, labels: str, classes: tuple[str, ...] | None) -> Iterator[str]:
    kind = schema.field(labels).type
    if is_numbered(kind) and classes is None:
        yield (
            f"column {labels!r} has numbers, and the file does not name them; give the names from 0 on, such as "
            "--set label_names=O,B-PER,I-PER, or --set gold=false"
        )
    elif not is_numbered(kind) and named_column(schema, (labels,), TOKEN_LISTS) is None:
        yield f"column {labels!r} of labels has type {kind}, want lists of strings or of numbers; or --set gold=false"


def _is_id(kind: pa.DataType) -> bool:
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    return has_text_form(plain) or any(
        is_text(plain) for is_text in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    )


def _own(table: pa.Table, names: _ColumnRoles, stem: str, first_row: int) -> pa.Table:
    """The rows under the names and in the types of a corpus."""
    columns: dict[str, pa.ChunkedArray | pa.Array] = {TOKENS: table[names.tokens]}
    if names.ids is None:
        columns[DOC_ID] = row_ids(stem, first_row, len(table))
    else:
        columns[DOC_ID] = ids_as_text(table.select([names.ids]), names.ids)[names.ids]
    if names.sentences is not None:
        columns[SENTENCE_STARTS] = table[names.sentences]
    if names.labels is not None:
        labels = table[names.labels]
        columns[LABELS] = named_labels(labels, names.classes or ()) if is_numbered(labels.type) else labels
    return pa.table(columns).replace_schema_metadata({COLUMNS_KEY: b""})


def _documents(
    table: pa.Table, settings: ParquetReaderSettings, source: str, first_row: int
) -> Iterator[Document | Reject]:
    batch, rejects = batch_from_table(table, source=source, first_row=first_row)
    yield from rejects
    for document in batch:
        yield document if document.labels is None or settings.scheme == "plain" else _in_bio(document, source)


def _unlabelled(table: pa.Table, source: str, first_row: int) -> Iterator[Reject]:
    reason = "no labels, and other files have some; --set gold=false reads all without"
    for row, doc_id in enumerate(table[DOC_ID].to_pylist(), first_row):
        yield Reject(source, row, doc_id, reason)


def _in_bio(document: Document, source: str) -> Document | Reject:
    """The document with its labels in BIO, or its reject."""
    assert document.labels is not None
    names = document.labels.strings()
    of_label = label_fault if any(map(has_prefix, names)) else lone_label_fault
    for name in dict.fromkeys(names):
        if fault := of_label(name):
            return Reject(source, None, document.doc_id, fault)
    bounds = [*document.sentence_starts.tolist(), len(names)]
    sentences = [slice(start, end) for start, end in pairwise(bounds)]
    words = {name: [column.strings()[part] for part in sentences] for name, column in document.columns.items()}
    tokens = words.pop(TOKENS)
    return Document.build(document.doc_id, tokens, labels=[to_bio(names[part]) for part in sentences], **words)


def _asked(form: SourceForm, settings: ParquetReaderSettings) -> bool:
    """Are the tokens alone wanted of rows that have spans, too? A column that is named, or no gold, says so."""
    named = {"tokens_column", "labels_column", "gold"} & settings.model_fields_set
    return form == PARQUET_SPANS and bool(named)


PARQUET_FORM = SourceForm("a Parquet file", 40, lambda start: start.head.startswith(PARQUET_MAGIC))
PARQUET_READER = ReaderEntry(
    read_parquet_rows,
    ParquetReaderSettings,
    "Parquet of other programs: tokens, labels and ids under any names, labels as numbers",
    forms=(PARQUET_FORM,),
    suffixes=(".parquet",),
    asked=_asked,
)
