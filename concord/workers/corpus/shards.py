"""Shards (runs of rows of a Parquet file), and how a worker reads one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from concord.schemas.columns import (
    CORPUS_LAYOUT,
    DOC_ID,
    TOKENIZER_KEY,
    Reject,
    SchemaError,
    batch_from_table,
    check,
    check_scores,
    corpus_columns,
    raw_strings,
    token_columns,
)
from concord.schemas.corrections import Corrections, ShardCorrections, corrections_digest
from concord.schemas.document import TOKENS, Batch, ScoreColumn
from concord.schemas.errors import CorpusError
from concord.schemas.names import nearest
from concord.schemas.settings import TextSettings
from concord.workers.corpus.kept_columns import check_kept, kept_faults, kept_types, kept_values
from concord.workers.corpus.parquet import ListedFile, ParquetLocation, listed_file, open_parquet, with_text_ids
from concord.workers.corpus.readers.own_tokenizer import OwnTokenizer
from concord.workers.corpus.readers.text import batch_from_text_table, check_text
from concord.workers.corpus.row_digests import digest_of_rows, row_digests
from concord.workers.corpus.row_ranges import RowRanges

DEFAULT_TEXT = TextSettings()

BUFFER_BYTES = 1 << 20
"""Size, in bytes, of the pieces of a column that are fetched where a row group is read in parts."""


REPEATED = "doc_id is that of an earlier document too"
"""Reason of a repeat's reject where the place of the earlier document is not given."""

LETHAL = "its worker died of it twice, most often for lack of memory"
"""Reason of the reject of a document that kills the worker."""


class ReplacedError(CorpusError):
    """The rows of a file are no longer those with which the run was planned."""


class Shard(NamedTuple):
    """A run of consecutive rows of one file.

    - ``id``: hex digest of everything in the corpus that decides the output, wherever the rows stand.
    - ``first_row``: number of the first row in the file.
    - ``rows``: number of rows.
    - ``size``: approximate bytes of text, see `workers.corpus.row_digests.row_sizes`.
    - ``digest``: hex digest of the rows.
    - ``repeats``: rows of the shard whose document id an earlier row of the corpus has, with the reason for the reject.
    - ``lethal``: rows of the shard that killed their worker; known only from working on them, so not part of the id.
    - ``scores``: column of scores that is read with the rows; it counts as part of them.
    - ``corrections``: of its documents; they are part of the id, and of the digests of these documents.
    """

    id: str
    file: ParquetLocation
    first_row: int
    rows: int
    size: int
    digest: str
    repeats: tuple[tuple[int, str], ...] = ()
    lethal: tuple[int, ...] = ()
    scores: ScoreColumn | None = None
    corrections: ShardCorrections = ()

    @property
    def place(self) -> str:
        """File and rows, for messages."""
        return f"{self.file.path}, rows {self.first_row} to {self.first_row + self.rows - 1}"


def shard_columns(
    schema: pa.Schema, text: TextSettings, *, source: str, scores: ScoreColumn | None = None
) -> list[str]:
    """Columns that a run reads from a corpus file, or from a raw-text file (one without tokens); the ids come first.

    Raises `SchemaError`, also where ``scores`` are wanted of a file without tokens.
    """
    check_kept(schema, text.keep_columns, source=source)
    return list(dict.fromkeys([*_labelled_columns(schema, text, source, scores), *text.keep_columns]))


def _labelled_columns(schema: pa.Schema, text: TextSettings, source: str, scores: ScoreColumn | None) -> list[str]:
    """The columns that decide answers. Raises as `shard_columns`."""
    if scores is not None:
        check(schema, CORPUS_LAYOUT, source=source)
        check_scores(schema, scores, source=source)
        return [*corpus_columns(schema), scores.name]
    if not schema.get_all_field_indices(TOKENS):
        if text.text_column not in schema.names:
            raise SchemaError(
                f"{source}: there is neither a column {TOKENS!r}, as `concord ingest` makes it, nor one of raw texts "
                f"called {text.text_column!r}{nearest(text.text_column, dict.fromkeys(schema.names))}; name that of "
                "texts with --text-column, or make a corpus of it with `concord ingest`"
            )
        check_text(schema, text, source=source)
        return [text.id_column, text.text_column]
    check(schema, CORPUS_LAYOUT, source=source)
    return corpus_columns(schema)


def read_shard(shard: Shard, *, text: TextSettings = DEFAULT_TEXT) -> pa.Table:
    """The shard's rows.

    Raises `CorpusError` where the file or the row group is damaged, `ReplacedError` where other rows stand there
    now than when the shard was planned, `SchemaError` where its columns are wrong.
    """
    return _read(shard, text)[0]


def read_digests(shard: Shard, *, text: TextSettings = DEFAULT_TEXT) -> list[bytes]:
    """The digest of each of the shard's rows, by which the next run knows it. Raises as `read_shard`."""
    return _read(shard, text)[1]


def _read(shard: Shard, text: TextSettings) -> tuple[pa.Table, list[bytes]]:
    """The shard's rows, and the digest of each. Raises as `read_shard`."""
    table = open_rows(shard.file, text=text, scores=shard.scores).read(shard.first_row, shard.rows)
    digests = row_digests(table)
    if digest_of_rows(digests) != shard.digest:
        raise ReplacedError(
            f"{shard.place}: not what was there when the run began; the file was changed or replaced meanwhile. "
            "Run the same command again, and change a corpus between runs only"
        )
    return table, digests


def read_answer_digests(shard: Shard, *, text: TextSettings = DEFAULT_TEXT) -> list[bytes]:
    """The digest of each of the shard's rows as its answer has it, see `corrected_digests`. Raises as `read_shard`."""
    if not shard.corrections:
        return read_digests(shard, text=text)
    ids, digests = zip(*read_keys(shard, text=text), strict=True)
    names = [(doc_id or b"").decode(errors="replace") for doc_id in ids]
    return corrected_digests(digests, names, dict(shard.corrections))


def split(shard: Shard, parts: int, *, text: TextSettings = DEFAULT_TEXT) -> list[Shard]:
    """Splits a shard, in order, into at most ``parts`` ≥ 1 shards of about equally many rows, all with its id.

    Raises as `read_shard`.
    """
    digests = read_digests(shard, text=text)
    each = -(-shard.rows // parts)
    return [_part(shard, first, digests[first : first + each]) for first in range(0, shard.rows, each)]


def _part(shard: Shard, first: int, digests: list[bytes]) -> Shard:
    """Part of a shard: its rows from ``first`` on, one for each of the digests."""
    last = first + len(digests)
    return shard._replace(
        first_row=shard.first_row + first,
        rows=len(digests),
        digest=digest_of_rows(digests),
        repeats=tuple((row - first, why) for row, why in shard.repeats if first <= row < last),
        lethal=tuple(row - first for row in shard.lethal if first <= row < last),
    )


def read_ids(shard: Shard, *, text: TextSettings = DEFAULT_TEXT) -> list[bytes | None]:
    """The document ids of a shard's rows as they are stored. Raises as `read_shard`."""
    return [doc_id for doc_id, _ in read_keys(shard, text=text)]


def read_keys(shard: Shard, *, text: TextSettings = DEFAULT_TEXT) -> list[tuple[bytes | None, bytes]]:
    """The document id of each of a shard's rows as it is stored, and the row's digest. Raises as `read_shard`."""
    rows = open_rows(shard.file, text=text, scores=shard.scores)
    name = shard_columns(rows.schema, text, source=shard.file.path, scores=shard.scores)[0]
    table, digests = _read(shard, text)
    return list(zip(stored_ids(table[name]), digests, strict=True))


def stored_ids(column: pa.ChunkedArray) -> list[bytes | None]:
    """Document ids as bytes."""
    ids: list[bytes | None] = raw_strings(column).to_pylist()
    return ids


def file_columns(file: ParquetLocation, text: TextSettings) -> list[str]:
    """The token columns that documents of the file have; raw text is cut into `TOKENS` alone. Raises `SchemaError`."""
    schema = open_rows(file, text=text).schema
    columns = shard_columns(schema, text, source=file.path)
    return token_columns(schema) if TOKENS in columns else [TOKENS]


def kept_columns_of(file: ParquetLocation, text: TextSettings) -> tuple[str, ...]:
    """The columns of the file that predictions have, too, each with its type. Raises `SchemaError`."""
    return kept_types(open_rows(file, text=text).schema, text.keep_columns)


def tokenizer_of(shards: Iterable[Shard], *, text: TextSettings = DEFAULT_TEXT) -> str | None:
    """Tokenizer that a corpus of tokens states in its files, NAME==VERSION; None where it states none.

    Raises `CorpusError` where its files state different ones, and what reading raises.
    """
    stated: dict[str, str] = {}
    for shard in shards:
        schema = open_rows(shard.file, text=text, scores=shard.scores).schema
        name = (schema.metadata or {}).get(TOKENIZER_KEY, b"").decode(errors="replace")
        if name:
            stated.setdefault(name, shard.file.path)
    if len(stated) > 1:
        (first, one), (second, other) = list(stated.items())[:2]
        raise CorpusError(
            f"{one} was cut by {first} and {other} by {second}; ingest both again with one tokenizer, such as "
            "--set tokenizer=words"
        )
    return next(iter(stated), None)


def read_batch(
    shard: Shard, *, text: TextSettings = DEFAULT_TEXT, tokenizer: OwnTokenizer | None = None
) -> tuple[Batch, list[Reject]]:
    """The shard's good rows as a batch and its bad rows as rejects; raw text is tokenised on the way.

    Together they are all rows of the shard. Raises as `read_shard`.
    """
    return read_documents(shard, text=text, tokenizer=tokenizer)[:2]


class ShardDocuments(NamedTuple):
    """What a shard holds.

    - ``batch``: its good rows
    - ``rejects``: its bad rows
    - ``digests``: the digest of each good row
    - ``columns``: of the good rows, the values of the columns that predictions have, too, by name
    """

    batch: Batch
    rejects: list[Reject]
    digests: list[bytes]
    columns: Mapping[str, pa.Array]


def read_documents(
    shard: Shard, *, text: TextSettings = DEFAULT_TEXT, tokenizer: OwnTokenizer | None = None
) -> ShardDocuments:
    """The shard's rows as `read_batch` has them, with their digests. Raises as `read_shard`."""
    table, digests = _read(shard, text)
    batch, rejects = _documents(table, shard, text, tokenizer)
    bad = {reject.row for reject in rejects}
    places = [place for place in range(len(table)) if place + shard.first_row not in bad]
    good, columns = [digests[place] for place in places], kept_values(table, text.keep_columns, places)
    if shard.corrections:
        batch = replace(batch, corrections=dict(shard.corrections))
        good = corrected_digests(good, batch.doc_ids, batch.corrections)
    return ShardDocuments(batch, rejects, good, columns)


def corrected_digests(digests: Sequence[bytes], doc_ids: Sequence[str], corrections: Corrections) -> list[bytes]:
    """Digests of documents: of a corrected one, of its row and its corrections, as its answer is of both."""
    return [
        hashlib.sha256(digest + corrections_digest(corrections[doc_id])).digest()[: len(digest)]
        if doc_id in corrections
        else digest
        for digest, doc_id in zip(digests, doc_ids, strict=True)
    ]


def _documents(
    table: pa.Table, shard: Shard, text: TextSettings, tokenizer: OwnTokenizer | None
) -> tuple[Batch, list[Reject]]:
    source, faults = shard.file.path, dict.fromkeys(shard.lethal, LETHAL)
    faults |= dict.fromkeys((row for row, _ in shard.repeats), REPEATED)
    faults = kept_faults(table, text.keep_columns) | faults
    if TOKENS not in table.column_names:
        first = shard.first_row
        return batch_from_text_table(
            table, text, source=source, first_row=first, known_faults=faults, tokenizer=tokenizer
        )
    return batch_from_table(table, source=source, first_row=shard.first_row, known_faults=faults, scores=shard.scores)


def open_rows(
    file: ParquetLocation, *, text: TextSettings = DEFAULT_TEXT, scores: ScoreColumn | None = None
) -> RowRanges:
    """Row reader of a file's needed columns; kept open and reused as long as the file does not change.

    Raises `CorpusError` where the file is damaged, `SchemaError` where its columns are wrong.
    """
    return _rows(listed_file(file), text, scores)


@lru_cache(maxsize=2)
def _rows(version: ListedFile, text: TextSettings, scores: ScoreColumn | None) -> RowRanges:
    """Kept from shard to shard, so that a row group is not decoded anew for each of its parts."""
    whole = open_parquet(version.location)
    ids = DOC_ID if TOKENS in whole.schema_arrow.names else text.id_column
    schema = with_text_ids(whole.schema_arrow, ids)
    columns = shard_columns(schema, text, source=version.location.path, scores=scores)
    return RowRanges(whole, partial(_open_in_parts, version), version.location, columns)


@lru_cache(maxsize=2)
def _open_in_parts(version: ListedFile) -> pq.ParquetFile:
    return open_parquet(version.location, buffer_bytes=BUFFER_BYTES)
