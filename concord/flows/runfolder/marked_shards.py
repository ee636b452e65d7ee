"""Shards of a run with their markers in tables, from which the run can be published again without its corpus."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from concord.flows.runfolder.lists import LISTED_AT_ONCE
from concord.flows.runfolder.markers import Markers, marker_fields
from concord.schemas.arrays import Bytes
from concord.schemas.corrections import Correction, ShardCorrections
from concord.schemas.document import ScoreColumn
from concord.schemas.run import RunKey
from concord.schemas.secrets import place_of
from concord.workers.corpus.parquet import ParquetLocation, table_bytes
from concord.workers.corpus.row_digests import DIGEST_BYTES
from concord.workers.corpus.shard_table import ShardTable
from concord.workers.corpus.shards import Shard

CORRECTED_SPAN = pa.struct([("start", pa.int64()), ("end", pa.int64()), ("type", pa.string()), ("row", pa.int64())])
SCHEMA = pa.schema(
    [
        ("root", pa.string()),
        ("path", pa.string()),
        ("name", pa.string()),
        ("first_row", pa.int64()),
        ("rows", pa.int64()),
        ("size", pa.int64()),
        ("id", pa.binary(DIGEST_BYTES)),
        ("digest", pa.binary(DIGEST_BYTES)),
        ("repeats", pa.list_(pa.struct([("row", pa.int64()), ("reason", pa.string())]))),
        ("scores", pa.struct([("name", pa.string()), ("width", pa.int64())])),
        ("corrections", pa.list_(pa.struct([("doc_id", pa.string()), ("spans", pa.list_(CORRECTED_SPAN))]))),
        ("marker", pa.binary()),
    ]
)
"""A row a shard, as `workers.corpus.shards.Shard` has it, in the order of the corpus; and its marker as JSON."""


def schema() -> pa.Schema:
    """That of the tables, with the digest of the fields of a marker."""
    return SCHEMA.with_metadata(marker_fields())


def marked_shards(markers: Markers) -> Iterator[bytes]:
    """The tables of a run whose shards are all done; equal runs give equal bytes."""
    for start in range(0, len(markers.shards), LISTED_AT_ONCE):
        places = range(start, min(start + LISTED_AT_ONCE, len(markers.shards)))
        rows = [_row(markers.shards[place], markers.packed(place)) for place in places]
        yield table_bytes(pa.Table.from_pylist(rows, schema()))


def _row(shard: Shard, marker: bytes) -> dict[str, Any]:
    return {
        "root": place_of(shard.file.root),  # its key may be another one by then, and is nobody's business
        "path": shard.file.path,
        "name": shard.file.name,
        "first_row": shard.first_row,
        "rows": shard.rows,
        "size": shard.size,
        "id": bytes.fromhex(shard.id),
        "digest": bytes.fromhex(shard.digest),
        "repeats": [{"row": row, "reason": reason} for row, reason in shard.repeats],
        "scores": None if shard.scores is None else shard.scores._asdict(),
        "corrections": [
            {"doc_id": doc_id, "spans": [span._asdict() for span in spans]} for doc_id, spans in shard.corrections
        ],
        "marker": json.dumps(json.loads(marker), sort_keys=True).encode(),  # one read from a file has its keys in order
    }


def read_markers(tables: Callable[[], Iterable[pa.Table]], key: RunKey) -> Markers:
    """The markers of all shards of a run, by its key; its tables are read twice. Raises `OutputError`."""
    shards = _shard_table([table.drop_columns("marker") for table in tables()])
    markers = Markers(shards, key)
    for place, packed in enumerate(chain.from_iterable(table["marker"].to_pylist() for table in tables())):
        if not markers.has(place):
            markers.add_packed(markers.keys[place], packed)
    return markers


def _shard_table(tables: Sequence[pa.Table]) -> ShardTable:
    whole = pa.concat_tables([SCHEMA.remove(SCHEMA.get_field_index("marker")).empty_table(), *tables])
    files: dict[ParquetLocation, int] = {}
    locations = map(ParquetLocation, *(whole[name].to_pylist() for name in ParquetLocation._fields))
    numbers = [files.setdefault(location, len(files)) for location in locations]
    scores = whole["scores"][0].as_py() if len(whole) else None
    repeats, corrections = (_lists(whole[name]) for name in ("repeats", "corrections"))
    return ShardTable(
        files=tuple(files),
        file=np.array(numbers, np.int64),
        first_row=whole["first_row"].to_numpy(),
        rows=whole["rows"].to_numpy(),
        size=whole["size"].to_numpy(),
        ids=_digests(whole["id"]),
        digests=_digests(whole["digest"]),
        repeats={place: tuple((one["row"], one["reason"]) for one in rows) for place, rows in repeats},
        scores=None if scores is None else ScoreColumn(**scores),
        corrections={place: _corrections(rows) for place, rows in corrections},
    )


def _lists(column: pa.ChunkedArray) -> list[tuple[int, list[dict[str, Any]]]]:
    """The lists of a column that are not empty, by place."""
    places = np.flatnonzero(pc.list_value_length(column).to_numpy())
    return list(zip(places.tolist(), column.take(places).to_pylist(), strict=True))


def _digests(column: pa.ChunkedArray) -> Bytes:
    return np.frombuffer(b"".join(column.to_pylist()), np.uint8).reshape(-1, DIGEST_BYTES)


def _corrections(rows: Sequence[Mapping[str, Any]]) -> ShardCorrections:
    return tuple((row["doc_id"], tuple(Correction(**span) for span in row["spans"])) for row in rows)
