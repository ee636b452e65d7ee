"""The answers of a folder's runs as a Delta table, ``table/``: one commit a run that changed one; each version stays.

The table has the columns of predictions that are the answer. What may change without it, as penalties, bounds and
digests do, stands in ``predictions/`` alone: so a file whose answers stand stays, under its name, the SHA-256 of its
bytes. The library ``deltalake`` writes the log, in a copy on this machine. `RunOutput.create` brings the commit to the
table, in any storage, and fails where there is one. A run that is killed before that leaves the last version; the same
call again commits what is missing.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from concord.flows.errors import RunFolderError
from concord.flows.runfolder.layout import RunOutput
from concord.flows.runfolder.published import Published, published, row_of
from concord.flows.runfolder.saved_tables import save_tables, saved_tables
from concord.schemas.columns import DOC_ID, LABELS, PREDICTION_COLUMNS, PREDICTIONS_LAYOUT, SENTENCE_STARTS
from concord.schemas.document import TOKENS
from concord.schemas.feed import ENTITY_SPANS
from concord.schemas.nights import KeptRange
from concord.workers.corpus.parquet import table_bytes
from concord.workers.labelling.output import PREDICTIONS
from concord.workers.storage.scratch import scratch_folder
from concord.workers.storage.storage import Storage, read_if_there
from concord.workers.storage.tables import read_unthreaded

if TYPE_CHECKING:
    from deltalake import DeltaTable

LOOKED_AT = 30
"""Versions in which a document's answers are looked up."""

TABLE_FOLDER, LOG, NOTES_FOLDER = "table", "_delta_log", ".table"
"""The table's folder in an output, that of its log, and that of what is known of its files."""
LAST_CHECKPOINT = f"{LOG}/_last_checkpoint"
COMMIT, CHECKPOINT = re.compile(r"([0-9]{20})\.json"), re.compile(r"([0-9]{20})\.checkpoint\.parquet")
CHECKPOINT_EVERY = 10
APPLICATION = "concord"
"""Whose transactions the table numbers, each with the number of its version; the key of what a commit says of a run."""

ANSWER_COLUMNS = frozenset((DOC_ID, TOKENS, SENTENCE_STARTS, LABELS, ENTITY_SPANS))
ANSWERS_SCHEMA = pa.schema([field for field in PREDICTIONS_LAYOUT.required if field.name in ANSWER_COLUMNS])
"""Columns of a table without rows."""
FILES_OF_ANSWERS = pa.schema(
    [("predictions", pa.string()), ("answers", pa.string())], {"columns": ",".join(ANSWERS_SCHEMA.names)}
)
"""SHA-256 of a file of predictions, and the table's file with its answers."""
LOG_DIGESTS = pa.schema([("name", pa.string()), ("sha256", pa.string())])


class AnswerFile(NamedTuple):
    """A file of the table, as its log has it: bytes, rows, and the least and greatest id, None where it has no row."""

    size: int
    rows: int
    first: str | None
    last: str | None

    @classmethod
    def of(cls, data: bytes) -> AnswerFile:
        """The entry of a file of these bytes. Raises as `read_unthreaded`."""
        ids = read_unthreaded(data, [DOC_ID])[DOC_ID]
        ends = pc.min_max(ids).as_py()
        return cls(len(data), len(ids), ends["min"], ends["max"])

    def may_have(self, doc_id: str) -> bool:
        """Can the file have a row of the document?"""
        return self.first is not None and self.last is not None and self.first <= doc_id <= self.last

    @property
    def statistics(self) -> str:
        """JSON of what the log says of its rows."""
        ends = {} if self.first is None else {"minValues": {DOC_ID: self.first}, "maxValues": {DOC_ID: self.last}}
        return json.dumps({"numRecords": self.rows, "nullCount": {DOC_ID: 0}, **ends})


class TableState(NamedTuple):
    """The table at one version.

    - ``version``: number of its commit; −1 before the first
    - ``files``: by path
    - ``model``: digest of the model of its run; empty where the commit does not say it
    """

    version: int = -1
    files: Mapping[str, AnswerFile] = {}
    model: str = ""


def has_table(out: Storage) -> bool:
    """Has a run of this output been committed to a table?"""
    return any(True for _ in out.names(f"{TABLE_FOLDER}/{LOG}"))


def check_library(out: Storage) -> None:
    """Raises `RunFolderError` where a table in the output could be neither read nor written."""
    if find_spec("deltalake") is None:
        raise RunFolderError(
            f"{out.uri}/{TABLE_FOLDER}: a Delta table needs deltalake: pip install 'concord-nlp[delta]'; to go on "
            "without the table, leave out --table, and move that folder away if it is there"
        )


def file_name(data: bytes) -> str:
    """The name of a file of these bytes in the table."""
    return f"{hashlib.sha256(data).hexdigest()}.parquet"


def commit_run(out: RunOutput) -> int:
    """Commits the published run; returns the table's version, which stays where no answer changed.

    May be killed at any point: the same call again ends in the same state. Raises `RunFolderError` where the log is
    damaged, and the errors of `published` and of `RunOutput.create`, as where another run has committed.
    """
    check_library(out.storage)
    run, storage = published(out.storage.uri), out.storage
    names, additions, schema = dict[str, str](), dict[str, AnswerFile](), ANSWERS_SCHEMA
    there, by_predictions = set(storage.names(TABLE_FOLDER)), _names_by_predictions(storage)
    with _local_log(storage) as log:
        before = _state(log, None)
        for path, digest in run.files_in(PREDICTIONS):
            name = by_predictions.get(digest, "")
            if name not in before.files or name not in there:
                table = _answers_of(run, path, digest)
                data = table_bytes(table)
                name, schema = file_name(data), table.schema
                if name not in there:
                    out.create(f"{TABLE_FOLDER}/{name}", data)
                if name not in before.files:
                    additions[name] = AnswerFile.of(data)
            names[digest] = name
        removals = {name: before.files[name] for name in before.files.keys() - set(names.values())}
        version = before.version
        if version < 0 or additions or removals:
            version += 1
            _commit(log, run, _Step(version, additions, removals), schema)
            _bring_log(out, log)
    _keep_notes(storage, names)
    return version


def answer_names(run: Published) -> set[str]:
    """The files that the table of a run has at the run's version. Raises as `Published.tables`."""
    return {file_name(table_bytes(_answers_of(run, *file))) for file in run.files_in(PREDICTIONS)}


def _answers_of(run: Published, path: str, digest: str) -> pa.Table:
    """What the table has of a file of predictions. Raises as `Published.table`."""
    table = run.table(path, digest, PREDICTIONS_LAYOUT)
    apart = PREDICTION_COLUMNS - ANSWER_COLUMNS
    return table.select([name for name in table.column_names if name not in apart]).replace_schema_metadata()


def _names_by_predictions(out: Storage) -> dict[str, str]:
    """Names of the table's files, by the SHA-256 of the file of predictions; only to save reading these again."""
    return {
        row["predictions"]: row["answers"]
        for table in saved_tables(out, NOTES_FOLDER, FILES_OF_ANSWERS)
        for row in table.to_pylist()
    }


def log_digests(out: Storage) -> dict[str, str]:
    """SHA-256 by name, of the commits and checkpoints that concord has brought to the table; only for `verify`."""
    tables = saved_tables(out, NOTES_FOLDER, LOG_DIGESTS)
    return {row["name"]: row["sha256"] for table in tables for row in table.to_pylist()}


def _keep_notes(out: Storage, names: Mapping[str, str], first: int = 0) -> None:
    """Keeps what is known of the table's files, and of those of its log from a version on."""
    digests, there = log_digests(out), [name for name in out.below(TABLE_FOLDER).names(LOG) if _number(name) >= first]
    for name in there:
        if name not in digests:
            digests[name] = hashlib.sha256(read_if_there(out, f"{TABLE_FOLDER}/{LOG}/{name}") or b"").hexdigest()
    log = {name: digest for name, digest in sorted(digests.items()) if _number(name) >= first}
    columns = {"predictions": list(names), "answers": list(names.values())}
    log_columns = {"name": list(log), "sha256": list(log.values())}
    tables = (pa.table(columns, FILES_OF_ANSWERS), pa.table(log_columns, LOG_DIGESTS))
    save_tables(out, NOTES_FOLDER, map(table_bytes, tables))


class _LocalLog(NamedTuple):
    """The log of a table at ``uri``, from a checkpoint on, in the folder ``root`` of this machine."""

    uri: str
    root: Path
    names: frozenset[str]


class _Step(NamedTuple):
    """What the commit of a version adds and removes."""

    version: int
    additions: Mapping[str, AnswerFile]
    removals: Mapping[str, AnswerFile]


@contextmanager
def _local_log(out: Storage, first: int | None = None) -> Iterator[_LocalLog]:
    """Copies what of a table's log its versions from ``first`` on, or the last one, are read from.

    Raises `RunFolderError` where deltalake is not installed.
    """
    check_library(out)
    table = out.below(TABLE_FOLDER)
    there = list(table.names(LOG))
    versions = versions_of(COMMIT, there)
    reached = versions[-1] if first is None and versions else first or 0
    start = max((own for own in versions_of(CHECKPOINT, there) if own <= reached), default=0)
    with scratch_folder() as root:
        (root / LOG).mkdir()
        names = [name for name in there if _number(name) >= start]
        for name in names:
            (root / LOG / name).write_bytes(read_if_there(table, f"{LOG}/{name}") or b"")
        yield _LocalLog(table.uri, root, frozenset(names))


def versions_of(pattern: re.Pattern[str], names: Iterable[str]) -> list[int]:
    """Versions of the commits or checkpoints (`COMMIT`, `CHECKPOINT`) in a listing of the log, ascending."""
    return sorted(int(match[1]) for name in names if (match := pattern.fullmatch(name)))


def _number(name: str) -> int:
    """The version of a commit or a checkpoint; −1 for another file of the log."""
    match = COMMIT.fullmatch(name) or CHECKPOINT.fullmatch(name)
    return -1 if match is None else int(match[1])


def _opened(log: _LocalLog, version: int | None = None) -> DeltaTable:
    """The table at a version, or at the last one. Raises `RunFolderError`."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        return DeltaTable(log.root, version)
    except (DeltaError, OSError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise RunFolderError(
            f"{log.uri}: its log {LOG} is damaged ({reason}); move that folder away, and the same command begins a new "
            "table"
        ) from None


def _state(log: _LocalLog, version: int | None) -> TableState:
    """The table at a version, or the last one. Raises `RunFolderError` for a damaged log."""
    if not versions_of(COMMIT, log.names):
        return TableState()
    table = _opened(log, version)
    rows = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    files = {
        row["path"]: AnswerFile(
            row["size_bytes"], row["num_records"], row.get(f"min.{DOC_ID}"), row.get(f"max.{DOC_ID}")
        )
        for row in rows
    }
    commit = next(iter(table.history(1)), {})
    model = str(commit.get(APPLICATION, {}).get("model", ""))
    return TableState(table.version(), files, model)


def _commit(log: _LocalLog, run: Published, step: _Step, schema: pa.Schema) -> None:
    """Writes the commit of a version to the log on this machine, and the checkpoint where one is due."""
    from deltalake import CommitProperties, Schema, Transaction
    from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

    now, columns = round(1000 * time.time()), Schema.from_arrow(schema)
    what = {"corpus": run.manifest.dataset, "model": run.manifest.run.model, "run": run.manifest.run.digest}
    about = CommitProperties({APPLICATION: what}, 0, [Transaction(APPLICATION, step.version)])
    adds = [
        AddAction(name, file.size, {}, now, data_change=True, stats=file.statistics)
        for name, file in step.additions.items()
    ]
    if step.version == 0:
        settings: dict[str, str | None] = {"delta.checkpointInterval": str(CHECKPOINT_EVERY)}
        create_table_with_add_actions(str(log.root), columns, adds, configuration=settings, commit_properties=about)
        return
    table = _opened(log)
    if adds and columns != table.schema():  # then all files are others, and the library removes those that were there
        table.create_write_transaction([*adds], "overwrite", columns, commit_properties=about)
        return
    removes = [
        RemoveAction(name, data_change=True, deletion_timestamp=now, size=file.size, partition_values={})
        for name, file in step.removals.items()
    ]
    table.create_write_transaction([*adds, *removes], "append", table.schema(), commit_properties=about)


def _bring_log(out: RunOutput, log: _LocalLog) -> None:
    """Brings what is new in the log to the table: the commit, and then what only saves readers work."""
    new = (path for path in (log.root / LOG).iterdir() if path.name not in log.names)
    for path in sorted(new, key=lambda path: COMMIT.fullmatch(path.name) is None):
        write = out.create if COMMIT.fullmatch(path.name) else out.storage.write
        write(f"{TABLE_FOLDER}/{LOG}/{path.name}", path.read_bytes())


def table_state(out: Storage, version: int | None = None) -> TableState:
    """The table at a version, or the last one. Raises `RunFolderError` for a damaged log, and where it is not there."""
    with _local_log(out, version) as log:
        return _state(log, version)


def table_states(out: Storage, first: int) -> Iterator[TableState]:
    """The table at each version from ``first`` on that is there. Raises as `table_state`."""
    with _local_log(out, first) as log:
        for version in versions_of(COMMIT, log.names):
            if version >= first:
                yield _state(log, version)


def past_answers(out: Storage, doc_id: str) -> Iterator[tuple[TableState, Mapping[str, Any]]]:
    """The rows of a document in the last `LOOKED_AT` versions, oldest first. Raises as `table_state`."""
    table = out.below(TABLE_FOLDER)
    first = max(0, max(versions_of(COMMIT, table.names(LOG)), default=0) - LOOKED_AT + 1)
    rows = dict[str, Mapping[str, Any] | None]()
    for state in table_states(out, first):
        for path in (path for path, file in state.files.items() if file.may_have(doc_id)):
            if path not in rows:
                data = read_if_there(table, path)
                rows[path] = None if data is None else row_of(read_unthreaded(data), doc_id)
            row = rows[path]
            if row is not None:
                yield state, row
                break


def keep_versions(out: Storage, versions: int) -> KeptRange:
    """Removes all but the last ``versions`` versions of the table, and the files that only these had.

    A checkpoint of the first one that stays takes the place of all commits before it. May be killed at any point.
    Raises `RunFolderError` where there is no table, and as `table_state`.
    """
    table = out.below(TABLE_FOLDER)
    names = list(table.names(LOG))
    last = max(versions_of(COMMIT, names), default=None)
    if last is None:
        raise RunFolderError(f"{out.uri}: there is no table; `concord reprocess --table delta` keeps one")
    first, checkpoints = max(0, last - versions + 1), versions_of(CHECKPOINT, names)
    readable = {path for state in table_states(out, first) for path in state.files}
    if first and first not in checkpoints:
        with _local_log(out, first) as log:
            for version in sorted({first, *(own for own in checkpoints[-1:] if own > first)}):
                _opened(log, version).create_checkpoint()  # the last one is what `LAST_CHECKPOINT` names
            for path in (f"{LOG}/{first:020d}.checkpoint.parquet", LAST_CHECKPOINT):
                table.write(path, (log.root / path).read_bytes())
    gone = [name for name in table.names("") if name.endswith(".parquet") and name not in readable]
    _keep_notes(out, _names_by_predictions(out), first)
    table.remove([f"{LOG}/{name}" for name in names if 0 <= _number(name) < first])
    table.remove(gone)
    return KeptRange(first=first, last=last, removed=len(gone))
