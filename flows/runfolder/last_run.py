"""The last published run of an output folder, as far as the next one may take its answers."""

from __future__ import annotations

import pyarrow as pa

from concord.flows.runfolder.published import PublishedError, published
from concord.schemas.columns import DOCUMENT_DIGEST
from concord.schemas.run import RuleStrengths, RunKey
from concord.workers.labelling.kept import Known, LastAnswers, cheaper, index, known
from concord.workers.labelling.output import PREDICTIONS
from concord.workers.storage.storage import FolderStorage, Storage
from concord.workers.storage.tables import read_unthreaded


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
    if isinstance(storage, FolderStorage):
        # Readers' names lead to another folder as soon as this run is published; this one stays until then.
        storage = FolderStorage((storage.root / PREDICTIONS).resolve().parent)
    try:
        listed = [file for shard in run.shards() for file in shard.files.items()]
    except PublishedError:
        return LastAnswers.none()
    files = tuple(file for file in listed if file[0].startswith(f"{PREDICTIONS}/"))
    try:
        digests = [_digests(storage, path) for path, _ in files]
    except (pa.ArrowException, OSError, KeyError):
        return LastAnswers.none()
    return LastAnswers(storage, files, *index(digests), may, cheaper(manifest.rules, rules))


def _digests(storage: Storage, path: str) -> pa.ChunkedArray:
    """The digests of a file's documents; of the file no more is read."""
    with storage.opened(path) as file:
        return read_unthreaded(file, [DOCUMENT_DIGEST])[DOCUMENT_DIGEST]
