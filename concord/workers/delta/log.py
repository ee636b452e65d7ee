"""A Delta table's log: what its commits and checkpoints look like.

The form is that of the Delta protocol, reader version 1 and writer version 2, which every reader of Delta tables knows.
A commit is a file of JSON lines, ``_delta_log/00000000000000000007.json``; each tenth one is followed by a checkpoint,
a Parquet file of the whole state, so that who opens a long log reads a few small files. Nothing in a log depends on the
clock or on the machine: equal runs make equal logs.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from concord.workers.delta.statistics import statistics_of

LOG = "_delta_log"
LAST_CHECKPOINT = f"{LOG}/_last_checkpoint"
CHECKPOINT_EVERY = 10
APPLICATION = "concord"
"""Whose transactions the table numbers: those of runs, each with the number of its version."""
READER, WRITER = 1, 2
"""Versions of the protocol that a reader and a writer of the table have to know."""

DIGEST, UNSEALED = "digest", {"corpus", "model", "run"}
"""Key of a commit's digest in what it says of its run, and the keys of commits that have none."""

COMMIT = re.compile(r"([0-9]{20})\.json")
CHECKPOINT = re.compile(r"([0-9]{20})\.checkpoint\.parquet")

MAP = pa.map_(pa.string(), pa.string())
CHECKPOINT_SCHEMA = pa.schema(
    [
        ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64())])),
        (
            "add",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("partitionValues", MAP),
                    ("size", pa.int64()),
                    ("modificationTime", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("stats", pa.string()),
                ]
            ),
        ),
        ("remove", pa.struct([("path", pa.string()), ("deletionTimestamp", pa.int64()), ("dataChange", pa.bool_())])),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("format", pa.struct([("provider", pa.string()), ("options", MAP)])),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.string())),
                    ("configuration", MAP),
                ]
            ),
        ),
        ("protocol", pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])),
    ]
)


class DeltaLogError(ValueError):
    """A log that is no log of concord's, or a damaged one; the message says which file and what is wrong."""


class DataFile(NamedTuple):
    """A file of rows.

    - ``path``: its name in the table's folder
    - ``size``: bytes
    - ``stats``: JSON of the number of rows, and of least and greatest values
    """

    path: str
    size: int
    stats: str


class TableState(NamedTuple):
    """The table at one version.

    - ``version``: number of the last commit; −1 before the first
    - ``files``: by path, in the order in which they were added
    - ``schema``: JSON of the columns, as Delta writes it; empty before the first commit
    - ``table_id``: the table's own id; empty before the first commit
    """

    version: int = -1
    files: Mapping[str, DataFile] = {}
    schema: str = ""
    table_id: str = ""


class Commit(NamedTuple):
    """What one commit says of a run.

    - ``files``: all files of the table after it
    - ``schema``: its columns; None for those that it has
    - ``run``: what tells the run from others, for people who look at the table's history
    """

    files: Sequence[DataFile]
    schema: pa.Schema | None
    run: Mapping[str, Any]


def data_file(path: str, metadata: pq.FileMetaData, size: int) -> DataFile:
    """The entry of a Parquet file of ``size`` bytes with that footer."""
    return DataFile(path, size, json.dumps(statistics_of(metadata), sort_keys=True, separators=(",", ":")))


def may_have(file: DataFile, column: str, value: str) -> bool:
    """Can the file contain the value, by its min/max statistics?"""
    stats = json.loads(file.stats or "{}")
    low, high = (stats.get(end, {}).get(column) for end in ("minValues", "maxValues"))
    return low is None or high is None or low <= value <= high


def commit_name(version: int) -> str:
    """Place of a commit in the table's folder."""
    return f"{LOG}/{version:020d}.json"


def checkpoint_name(version: int) -> str:
    """Place of a checkpoint in the table's folder."""
    return f"{LOG}/{version:020d}.checkpoint.parquet"


def commit_lines(before: TableState, commit: Commit) -> bytes | None:
    """The bytes of the commit after ``before``; None where the table is already what it would make of it.

    Files that are gone are removed and new ones added in the same commit, so that a reader sees one run or the other.
    """
    schema = before.schema if commit.schema is None else schema_string(commit.schema)
    wanted = {file.path: file for file in commit.files}
    added = [file for path, file in wanted.items() if path not in before.files]
    removed = [path for path in before.files if path not in wanted]
    if before.version >= 0 and not added and not removed and schema == before.schema:
        return None
    actions: list[dict[str, Any]] = [{"commitInfo": _commit_info(before, commit)}]
    if before.version < 0:
        actions.append({"protocol": {"minReaderVersion": READER, "minWriterVersion": WRITER}})
    if schema != before.schema:
        actions.append({"metaData": _metadata(before.table_id or _new_id(commit.run), schema)})
    actions.append({"txn": {"appId": APPLICATION, "version": before.version + 1}})
    actions += [{"remove": {"path": path, "dataChange": True, "deletionTimestamp": 0}} for path in removed]
    actions += [{"add": _added(file)} for file in added]
    return _sealed(actions)


def _sealed(actions: Sequence[Mapping[str, Any]]) -> bytes:
    """The lines of a commit, the first of which has a digest of all of them without it."""
    first, *rest = actions
    info = first["commitInfo"]
    run = info["concord"] | {DIGEST: hashlib.sha256(_lines(actions)).hexdigest()}
    return _lines([{"commitInfo": info | {"concord": run}}, *rest])


def _lines(actions: Iterable[Mapping[str, Any]]) -> bytes:
    return "".join(f"{json.dumps(action, sort_keys=True)}\n" for action in actions).encode()


def commit_fault(lines: bytes, version: int) -> str | None:
    """What is wrong with the bytes of the commit of a version; None where they are as they were written.

    Commits of earlier versions of concord have no digest: of these the form alone is looked at.
    """
    try:
        actions = [json.loads(line) for line in lines.splitlines()]
        run = actions[0]["commitInfo"]["concord"]
        number = next(action["txn"]["version"] for action in actions if "txn" in action)
        sealed = run.pop(DIGEST, None) is not None
        whole = (_sealed(actions) if sealed else _lines(actions)) == lines and (sealed or run.keys() == UNSEALED)
    except (ValueError, LookupError, TypeError, AttributeError, StopIteration):
        return "is no commit of concord's, or a damaged one"
    if number != version:
        return f"is the commit of version {number}"
    return None if whole else "is damaged"


def _commit_info(before: TableState, commit: Commit) -> dict[str, Any]:
    operation = {"operation": "WRITE", "operationParameters": {"mode": "Overwrite"}, "isBlindAppend": False}
    read = {"readVersion": before.version} if before.version >= 0 else {}
    return operation | read | {"concord": dict(commit.run)}


def _new_id(run: Mapping[str, Any]) -> str:
    """A table's id, from its first run, so that the same run makes the same table."""
    return str(uuid.UUID(hashlib.sha256(json.dumps(dict(run), sort_keys=True).encode()).hexdigest()[:32]))


def _metadata(table_id: str, schema: str) -> dict[str, Any]:
    form = {"provider": "parquet", "options": {}}
    return {"id": table_id, "format": form, "schemaString": schema, "partitionColumns": [], "configuration": {}}


def _added(file: DataFile) -> dict[str, Any]:
    entry = {"path": file.path, "partitionValues": {}, "size": file.size, "modificationTime": 0, "dataChange": True}
    return entry | {"stats": file.stats}


def after(before: TableState, lines: bytes, *, source: str) -> TableState:
    """The state after a commit of these bytes. Raises `DeltaLogError`, with ``source``, for what is no commit."""
    files, schema, table_id = dict(before.files), before.schema, before.table_id
    try:
        actions = [json.loads(line) for line in lines.splitlines() if line.strip()]
        for action in actions:
            (kind, content), *_ = action.items()
            if kind == "add":
                files[content["path"]] = DataFile(content["path"], content["size"], content.get("stats", ""))
            elif kind == "remove":
                files.pop(content["path"], None)
            elif kind == "metaData":
                schema, table_id = content["schemaString"], content["id"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DeltaLogError(f"{source}: no commit of a Delta table, or a damaged one ({error})") from error
    return TableState(before.version + 1, files, schema, table_id)


def checkpoint(state: TableState) -> pa.Table:
    """The whole state as a table, which readers open in place of all commits up to its version."""
    rows: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": READER, "minWriterVersion": WRITER}},
        {"metaData": _metadata(state.table_id, state.schema)},
        {"txn": {"appId": APPLICATION, "version": state.version}},
        *({"add": _added(file)} for file in state.files.values()),
    ]
    return pa.Table.from_pylist(rows, CHECKPOINT_SCHEMA)


def last_checkpoint(state: TableState) -> bytes:
    """The bytes of the file that says which checkpoint is the last one."""
    size = 3 + len(state.files)
    return json.dumps({"version": state.version, "size": size}, sort_keys=True).encode()


def of_checkpoint(table: pa.Table, version: int, *, source: str) -> TableState:
    """The state that a checkpoint holds. Raises `DeltaLogError`, with ``source``, for a table of another form."""
    if not set(CHECKPOINT_SCHEMA.names) <= set(table.column_names):
        raise DeltaLogError(f"{source}: no checkpoint of a Delta table")
    rows = table.to_pylist()
    added = [row["add"] for row in rows if row["add"] is not None]
    files = {entry["path"]: DataFile(entry["path"], entry["size"], entry["stats"] or "") for entry in added}
    tables = [row["metaData"] for row in rows if row["metaData"] is not None]
    if len(tables) != 1:
        raise DeltaLogError(f"{source}: a checkpoint of a Delta table has one schema, this one {len(tables)}")
    return TableState(version, files, tables[0]["schemaString"], tables[0]["id"])


def versions_of(pattern: re.Pattern[str], names: Iterable[str]) -> list[int]:
    """Versions of the commits or checkpoints (`COMMIT`, `CHECKPOINT`) in a listing of the log, ascending."""
    return sorted(int(match[1]) for name in names if (match := pattern.fullmatch(name)))


PRIMITIVES = {
    pa.string(): "string",
    pa.large_string(): "string",
    pa.int64(): "long",
    pa.int32(): "integer",
    pa.float64(): "double",
    pa.float32(): "float",
    pa.bool_(): "boolean",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
}


def schema_string(schema: pa.Schema) -> str:
    """JSON of the columns, as Delta writes it. Raises `DeltaLogError` for a type that Delta has no name for."""
    return json.dumps({"type": "struct", "fields": [_field(field) for field in schema]}, sort_keys=True)


def _field(field: pa.Field) -> dict[str, Any]:
    return {"name": field.name, "type": _type(field.type), "nullable": True, "metadata": {}}


def _type(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return {"type": "array", "elementType": _type(kind.value_type), "containsNull": True}
    if pa.types.is_struct(kind):
        return {"type": "struct", "fields": [_field(field) for field in kind]}
    if kind not in PRIMITIVES:
        raise DeltaLogError(f"a column of type {kind}, for which Delta has no name")
    return PRIMITIVES[kind]
