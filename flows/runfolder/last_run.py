"""The last published run of an output folder, as far as the next one may take its answers.

Answers are found by the digests of their documents. To get these of each file of predictions would take a request or
two a file, each night; so they are kept in tables, by the SHA-256 of the file, and only files that are new are opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from concord.flows.runfolder.asking import asked
from concord.flows.runfolder.kept_tables import keep_tables, kept_tables
from concord.flows.runfolder.published import PublishedError, published
from concord.schemas.columns import DOCUMENT_DIGEST
from concord.schemas.run import RuleStrengths, RunKey
from concord.workers.corpus.parquet import table_bytes
from concord.workers.labelling.kept import Known, LastAnswers, cheaper, index, known, numbers_of
from concord.workers.labelling.output import PREDICTIONS
from concord.workers.storage.storage import FolderStorage, Storage
from concord.workers.storage.tables import read_unthreaded

KEPT_DIGESTS = ".digests"
"""The digests of the documents in the files of the last run that a run has begun with, in tables."""

FILES_OF_A_TABLE = 1 << 14
"""Files of a table."""

SCHEMA = pa.schema([("sha256", pa.string()), ("documents", pa.binary())])
"""A row a file of predictions: eight bytes of the digest of each of its documents."""

Digests = NDArray[np.uint64]


def last_answers(storage: Storage, key: RunKey, rules: RuleStrengths) -> LastAnswers:
    """The answers of the last run that a run with this key and these constraints may take.

    None are taken from a folder that is damaged, or that an older version of concord wrote.
    """
    try:
        run = published(storage.uri)
    except PublishedError:
        return LastAnswers.none()
    manifest = run.manifest
    may = known(manifest.run, key, manifest.rules, rules)
    if may is Known.NOTHING:
        return LastAnswers.none()
    there = storage
    if isinstance(storage, FolderStorage):
        # Readers' names lead to another folder as soon as this run is published; this one stays until then.
        there = FolderStorage((storage.root / PREDICTIONS).resolve().parent)
    try:
        files = tuple(run.files_in(PREDICTIONS))
        digests = index(_digests(storage, there, files))
    except (PublishedError, pa.ArrowException, OSError, KeyError):
        return LastAnswers.none()
    return LastAnswers(there, files, *digests, may, cheaper(manifest.rules, rules))


def keep_digests(storage: Storage, last: LastAnswers) -> None:
    """Keeps the digests of the last run's documents for the next run. Raises `OutputError`."""
    order = np.lexsort((last.row, last.file))
    digests, starts = last.digest[order], np.searchsorted(last.file[order], np.arange(len(last.files) + 1))
    parts = (range(first, len(last.files))[:FILES_OF_A_TABLE] for first in range(0, len(last.files), FILES_OF_A_TABLE))
    keep_tables(storage, KEPT_DIGESTS, (_table(part, last, digests, starts) for part in parts))


def _table(part: range, last: LastAnswers, digests: Digests, starts: NDArray[np.intp]) -> bytes:
    columns = {
        "sha256": [last.files[file][1] for file in part],
        "documents": [digests[starts[file] : starts[file + 1]].tobytes() for file in part],
    }
    return table_bytes(pa.table(columns, SCHEMA))


def _digests(storage: Storage, there: Storage, files: Sequence[tuple[str, str]]) -> Iterator[Digests]:
    """Of each file the digests of its documents; only files of which none are kept are opened, ``there``."""
    found = {sha256: row for data in kept_tables(storage, KEPT_DIGESTS) for sha256, row in _kept(data)}
    new = [path for path, sha256 in files if sha256 not in found]
    opened = asked(there, lambda path: _opened(there, path), new)
    for _, sha256 in files:
        own = found.get(sha256)
        yield next(opened)[1] if own is None else own


def _opened(storage: Storage, path: str) -> Digests:
    """The digests of a file's documents; of the file no more is read."""
    with storage.opened(path) as file:
        return numbers_of(read_unthreaded(file, [DOCUMENT_DIGEST])[DOCUMENT_DIGEST].to_pylist())


def _kept(data: bytes) -> Iterator[tuple[str, Digests]]:
    """The rows of a table; none of one that is damaged, or of another version: it is there only to save work."""
    try:
        table = read_unthreaded(data)
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return
    if table.schema.equals(SCHEMA):
        for sha256, own in zip(table["sha256"].to_pylist(), table["documents"].to_pylist(), strict=True):
            if len(own) % 8 == 0:
                yield sha256, np.frombuffer(own, np.uint64)
