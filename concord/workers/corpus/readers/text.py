"""Raw text: a column of Parquet, CSV or JSON records, or .txt files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

import numpy as np
import pyarrow as pa

from concord.schemas.columns import DOC_ID, NO_FAULTS, TEXT, Notice, Reject, SchemaError, absent, decode, string_faults
from concord.schemas.document import TOKENS, Batch, Document, TokenizedTexts
from concord.schemas.errors import CorpusError, DocumentError
from concord.schemas.settings import RawTextSettings
from concord.workers.corpus.other_kinds import advice_for
from concord.workers.corpus.parquet import (
    ids_as_text,
    open_parquet,
    parquet_files,
    read_row_group,
    row_ids,
    with_text_ids,
)
from concord.workers.corpus.readers.own_tokenizer import OwnTokenizer
from concord.workers.corpus.readers.reader import (
    EMPTY_FILE,
    ENCODING_OPTION,
    ReaderItem,
    UndecodableError,
    decoded,
    or_nothing,
    source_files,
    text_fault,
)
from concord.workers.corpus.readers.text_tables import TABLE_SUFFIXES, TextRow, text_rows
from concord.workers.corpus.settings import TextReaderSettings
from concord.workers.corpus.tokenizers.registry import load_tokenizer

BYTE_ORDER_MARK = "\ufeff"
NUMBERED_TEXTS = "no column doc_id or id, so ids are of the file and the row; --set id_column=NAME names one"


def read_text(source: str, settings: TextReaderSettings) -> Iterator[ReaderItem]:
    """Documents of a Parquet file or folder (a path or URI), of a table of `TABLE_SUFFIXES`, or of .txt files.

    A folder is read as Parquet when it holds ``.parquet`` files, otherwise as ``.txt`` files,
    whose names without ``.txt`` are the document ids, or as tables when it has none. A row of a table without an id
    gets that of its file and place. Raises `CorpusError` for a file of a kind whose syntax would become words.
    """
    if _is_parquet(source):
        yield from _read_parquet(source, settings)
        return
    tables = _tables(source)
    if tables:
        seen: set[str] = set()
        for path, name in tables:
            prefix = str(PurePosixPath(name).with_suffix(""))
            yield from or_nothing(path, _read_table(path, prefix, settings, seen))
        return
    _check_kind(source)
    for path, name in source_files(source, suffix=".txt"):
        yield document_from_bytes(path.read_bytes(), str(path), name.removesuffix(".txt"), settings)


def _tables(source: str) -> list[tuple[Path, str]]:
    """The tables of texts at a source; none where there are .txt files."""
    files = source_files(source)
    if any(path.suffix == ".txt" for path, _ in files):
        return []
    return [(path, name) for path, name in files if path.suffix.lower() in TABLE_SUFFIXES]


def _read_table(path: Path, prefix: str, settings: TextReaderSettings, seen: set[str]) -> Iterator[Document | Reject]:
    for number, row in enumerate(text_rows(path, prefix, settings), 1):
        placed = f"{prefix}-{number:04d}"
        if isinstance(row, Reject):
            seen.add(placed)
            yield row
            continue
        doc_id = placed if row.doc_id is None else row.doc_id
        if doc_id in seen:
            reason = f"line {row.line}: document {doc_id!r} was there before; take out one of the two"
            yield Reject(str(path), row.line, placed, reason)
            continue
        seen.add(doc_id)
        yield _of_row(path, doc_id, row, settings)


def _of_row(path: Path, doc_id: str, row: TextRow, settings: TextReaderSettings) -> Document | Reject:
    fault = "its text is blank" if not row.text.strip() else text_fault(row.text) or text_fault(doc_id)
    if fault:
        return Reject(str(path), row.line, doc_id if not text_fault(doc_id) else None, f"line {row.line}: {fault}")
    try:
        return batch_from_texts([doc_id], [row.text], settings).document(0)
    except DocumentError as error:
        return Reject(str(path), row.line, doc_id, f"line {row.line}: {error.reason}")


def _check_kind(source: str) -> None:
    if advice := advice_for(source):
        kind = Path(source).suffix.lower()
        raise CorpusError(f"{source}: a {kind} file is no plain text, its syntax would become words; {advice}")


def document_from_bytes(
    raw: bytes,
    source: str,
    doc_id: str,
    settings: TextReaderSettings,
    *,
    option: str = ENCODING_OPTION,
    tokenizer: OwnTokenizer | None = None,
) -> Document | Reject:
    """Document of a whole file's bytes, or its reject; ``option`` as in `decoded`.

    Raises as `batch_from_texts`, except that a text which cannot be cut becomes a reject.
    """
    text = text_of_bytes(raw, source, doc_id, settings.encoding, option=option)
    if isinstance(text, Reject):
        return text
    try:
        return batch_from_texts([doc_id], [text], settings, tokenizer=tokenizer).document(0)
    except DocumentError as error:
        return Reject(source, None, doc_id, error.reason)


def text_of_bytes(
    raw: bytes, source: str, doc_id: str, encoding: str, *, option: str = ENCODING_OPTION
) -> str | Reject:
    """Text of a whole file, or its reject where it is blank or cannot be decoded; ``option`` as in `decoded`."""
    try:
        text = decoded(raw, encoding, option=option).removeprefix(BYTE_ORDER_MARK)
    except UndecodableError as error:
        line = raw.count(b"\n", 0, error.at) + 1
        return Reject(source, line, doc_id, f"line {line}: {error}")
    return Reject(source, None, doc_id, EMPTY_FILE) if is_blank(text) else text


def is_blank(text: str) -> bool:
    """Has a text no words, whether or not it begins with a mark of byte order?"""
    return not text.removeprefix(BYTE_ORDER_MARK).strip()


def batch_from_texts(
    doc_ids: Sequence[str], texts: Sequence[str], settings: RawTextSettings, *, tokenizer: OwnTokenizer | None = None
) -> Batch:
    """Tokenised texts as a batch with character offsets; every text must have a token.

    Raises `LanguageError` and `TokenizerError`, and `DocumentError` for a text that another package's tokenizer cannot
    cut.
    """
    cut = (tokenizer or load_tokenizer(settings))(texts)
    empty = np.flatnonzero(np.diff(cut.doc_starts) == 0)
    if len(empty):
        raise DocumentError("the tokenizer finds no word in it", doc_ids[int(empty[0])])
    return Batch(
        tuple(doc_ids),
        cut.doc_starts,
        cut.sentence_starts,
        {TOKENS: cut.tokens},
        raw=TokenizedTexts(list(texts), cut.start, cut.end),
    )


def batch_from_text_table(
    table: pa.Table,
    settings: RawTextSettings,
    *,
    source: str,
    first_row: int = 0,
    known_faults: Mapping[int, str] = NO_FAULTS,
    tokenizer: OwnTokenizer | None = None,
) -> tuple[Batch, list[Reject]]:
    """The good rows of a table of raw texts, tokenised, and a reject for every other row, in row order.

    ``first_row`` and ``known_faults`` as in `batch_from_table`. Raises `SchemaError`, see `check_text`.
    """
    check_text(table.schema, settings, source=source)
    ids, texts = decode(table[settings.id_column]), decode(table[settings.text_column])
    faults = dict(known_faults)
    faults |= {row: f"{TEXT} is blank" for row, text in enumerate(texts) if text is not None and not text.strip()}
    faults |= string_faults(table[settings.text_column], TEXT)
    faults |= string_faults(table[settings.id_column], DOC_ID)
    good = {
        row: (doc_id, text)
        for row, (doc_id, text) in enumerate(zip(ids, texts, strict=True))
        if doc_id is not None and text is not None and row not in faults
    }
    try:
        batch = _batch(good.values(), settings, tokenizer)
    except DocumentError:
        uncut = dict(_uncut(good, settings, tokenizer))
        faults |= uncut
        batch = _batch([found for row, found in good.items() if row not in uncut], settings, tokenizer)
    return batch, [Reject(source, first_row + row, ids[row], reason) for row, reason in sorted(faults.items())]


def _batch(found: Iterable[tuple[str, str]], settings: RawTextSettings, tokenizer: OwnTokenizer | None) -> Batch:
    """Ids and their texts, tokenised."""
    given = list(found)
    return batch_from_texts([i for i, _ in given], [text for _, text in given], settings, tokenizer=tokenizer)


def _uncut(
    rows: Mapping[int, tuple[str, str]], settings: RawTextSettings, tokenizer: OwnTokenizer | None
) -> Iterator[tuple[int, str]]:
    """Rows whose text the tokenizer cannot cut, each with the reason."""
    for row, found in rows.items():
        try:
            _batch([found], settings, tokenizer)
        except DocumentError as error:
            yield row, error.reason


def check_text(schema: pa.Schema, settings: RawTextSettings, *, source: str) -> None:
    """Raises `SchemaError` where the columns of ids and texts are missing or are not strings."""
    # A run's options have flags of their own; those of a reader are given by --set.
    read = isinstance(settings, TextReaderSettings)
    needed = {
        "--set id_column=NAME" if read else "--id-column": ("document ids", settings.id_column),
        "--set text_column=NAME" if read else "--text-column": ("texts", settings.text_column),
    }
    for option, (what, name) in needed.items():
        place = schema.get_field_index(name)
        if place < 0:
            raise SchemaError(f"{source}: {absent(schema, name)}; name the one of {what} with {option}")
        kind = schema.field(place).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
            raise SchemaError(
                f"{source}: column {name!r} has type {kind}, want string; write it as strings, or name another one of "
                f"{what} with {option}"
            )


def _is_parquet(source: str) -> bool:
    if "://" in source or source.endswith(".parquet"):
        return True
    return any(name.endswith(".parquet") for _, name in source_files(source))


def _read_parquet(source: str, settings: TextReaderSettings) -> Iterator[ReaderItem]:
    for file in parquet_files(source):
        parquet = open_parquet(file)
        numbered = _has_no_ids(parquet.schema_arrow, settings)
        named = settings if numbered else _with_id_column(parquet.schema_arrow, settings)
        if not numbered:
            check_text(with_text_ids(parquet.schema_arrow, named.id_column), named, source=file.path)
        columns = [named.text_column] if numbered else [named.id_column, named.text_column]
        stem, row = file.name.removesuffix(".parquet"), 0
        for group in range(parquet.num_row_groups):
            table = read_row_group(parquet, file, group, columns)
            if numbered:
                table = table.append_column(named.id_column, row_ids(stem, row, len(table)))
                check_text(table.schema, named, source=file.path)
            rows = ids_as_text(table, named.id_column)
            batch, rejects = batch_from_text_table(rows, named, source=file.path, first_row=row)
            yield from batch
            yield from rejects
            row += len(table)
        if numbered and row:
            yield Notice(file.path, NUMBERED_TEXTS)


def _has_no_ids(schema: pa.Schema, settings: TextReaderSettings) -> bool:
    """Has a file texts, and no column of ids, where none was asked for?"""
    if "id_column" in settings.model_fields_set:
        return False
    return settings.text_column in schema.names and not {settings.id_column, "id"} & set(schema.names)


def _with_id_column(schema: pa.Schema, settings: TextReaderSettings) -> TextReaderSettings:
    """The settings with the column of ids that is there, one called ``id`` in place of the usual one."""
    own = "id_column" in settings.model_fields_set or settings.id_column in schema.names
    if own or "id" not in schema.names:
        return settings
    return settings.model_copy(update={"id_column": "id"})
