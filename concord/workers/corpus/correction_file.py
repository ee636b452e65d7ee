"""Files of corrections, JSON lines or Parquet, and the shards in which the corrected documents are."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from concord.schemas.corrections import Correction, CorrectionError, Corrections, ShardCorrections, sorted_corrections
from concord.schemas.document import ScoreColumn
from concord.schemas.secrets import place_of, short_name
from concord.schemas.settings import TextSettings
from concord.workers.corpus.row_runs import id_hash
from concord.workers.corpus.run_table import RunTable, runs_with
from concord.workers.corpus.shards import read_ids
from concord.workers.storage.storage import file_bytes
from concord.workers.storage.tables import unthreaded_file

PARQUET = ".parquet"
FIELDS = ("doc_id", "start", "end", "type")
"""Fields of a row; it may have others, which are not read."""
EXAMPLE_ROW = '{"doc_id": "a", "start": 3, "end": 5, "type": "PER"}, with null for no entity'


class CorrectionFile(NamedTuple):
    """The corrections of a file.

    - ``place``: the file, for messages
    - ``corrections``: what it says, by document
    """

    place: str
    corrections: Corrections

    def of_documents(self, only: Collection[str] | None) -> CorrectionFile:
        """Those of the documents ``only``; None for all."""
        if only is None:
            return self
        ids = set(only)
        return self._replace(corrections={doc: own for doc, own in self.corrections.items() if doc in ids})

    @property
    def types(self) -> frozenset[str]:
        """The types that it names."""
        every = (one.type for own in self.corrections.values() for one in own)
        return frozenset(name for name in every if name is not None)

    def error(self, reason: str) -> CorrectionError:
        """An error of this file."""
        return CorrectionError(f"{self.place}, {reason}")


NO_FILE = CorrectionFile("no corrections", {})


def read_corrections(place: str) -> CorrectionFile:
    """The corrections of a file at a path or a URI: Parquet by its name, otherwise JSON, an object a line.

    Each row is {"doc_id", "start", "end", "type"}: tokens of the document, end exclusive; the type is null for no
    entity. Raises `CorrectionError`, which names the file and the row, and `OSError`.
    """
    data, file = file_bytes(place), CorrectionFile(place_of(place), {})
    rows = _table_rows(file, data) if short_name(place).endswith(PARQUET) else _json_rows(file, data)
    by_document: dict[str, list[Correction]] = defaultdict(list)
    for number, row in rows:
        doc_id, one = _correction(file, number, row)
        by_document[doc_id].append(one)
    return file._replace(corrections={doc_id: _sorted(file, doc_id, own) for doc_id, own in by_document.items()})


def _sorted(file: CorrectionFile, doc_id: str, corrections: Sequence[Correction]) -> tuple[Correction, ...]:
    try:
        return sorted_corrections(corrections)
    except CorrectionError as error:
        raise file.error(f"document {doc_id!r}: {error}") from None


def _correction(file: CorrectionFile, number: int, row: Mapping[str, Any]) -> tuple[str, Correction]:
    """Document and correction of a row."""
    missing = next((name for name in FIELDS if name not in row), None)
    if missing is not None:
        raise file.error(f"row {number}: there is no field {missing!r}; want {EXAMPLE_ROW}")
    doc_id, start, end, kind = (row[name] for name in FIELDS)
    if not isinstance(doc_id, str | int) or isinstance(doc_id, bool):
        raise file.error(f"row {number}: doc_id is {doc_id!r}, want a text or a whole number")
    for name, value in (("start", start), ("end", end)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise file.error(f"row {number}: {name} is {value!r}, want the number of a token")
    if kind is not None and not (isinstance(kind, str) and kind):
        raise file.error(f"row {number}: type is {kind!r}, want a type of the model, or null for no entity")
    if not 0 <= start < end:
        raise file.error(f"row {number}: {start}:{end} is no span; want 0 <= start < end, in tokens, end exclusive")
    return str(doc_id), Correction(start, end, kind, number)


def _json_rows(file: CorrectionFile, data: bytes) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Rows by number, from 1; empty lines count and say nothing."""
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise file.error(f"row {number}: is no JSON ({error}); want {EXAMPLE_ROW}") from None
        if not isinstance(row, dict):
            raise file.error(f"row {number}: is no object; want {EXAMPLE_ROW}")
        yield number, row


def _table_rows(file: CorrectionFile, data: bytes) -> Iterator[tuple[int, Mapping[str, Any]]]:
    try:
        table = unthreaded_file(data).read(use_threads=False)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise CorrectionError(f"{file.place}: is no Parquet file, or a damaged one ({reason})") from None
    missing = next((name for name in FIELDS if name not in table.column_names), None)
    if missing is not None:
        raise CorrectionError(f"{file.place}: there is no column {missing!r}; want {', '.join(FIELDS)}")
    yield from enumerate(table.select(list(FIELDS)).to_pylist(), 1)


def shards_with(
    tables: Sequence[RunTable], file: CorrectionFile, text: TextSettings, scores: ScoreColumn | None
) -> dict[int, ShardCorrections]:
    """The corrections of each run of rows that has corrected documents, by its place in the corpus.

    Reads the ids of those runs alone. Raises `CorrectionError` for a document that the corpus does not have, and what
    reading raises.
    """
    corrections = file.corrections
    hashes = np.array([id_hash(doc_id.encode()) for doc_id in corrections], np.int64)
    placed: dict[int, ShardCorrections] = {}
    before = 0
    for table in tables if corrections else ():
        for number in runs_with(table, np.flatnonzero(np.isin(table.ids, hashes))):
            stored = read_ids(table.run(number).shard(scores), text=text)
            ids = {doc_id.decode(errors="replace") for doc_id in stored if doc_id is not None}
            here = sorted(ids & corrections.keys())
            if here:
                placed[before + number] = tuple((doc_id, corrections[doc_id]) for doc_id in here)
        before += len(table)
    there = {doc_id for here in placed.values() for doc_id, _ in here}
    missing = [(own[0].row, doc_id) for doc_id, own in corrections.items() if doc_id not in there]
    if missing:
        row, doc_id = min(missing)
        raise file.error(f"row {row}: the corpus has no document {doc_id!r}")
    return placed
