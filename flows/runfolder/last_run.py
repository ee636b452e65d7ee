"""The last published run of an output folder, as far as the next one may take its answers."""

from __future__ import annotations

import pyarrow as pa

from concord.flows.runfolder.asking import asked
from concord.flows.runfolder.markers import Markers
from concord.flows.runfolder.published import Published, PublishedError, published
from concord.flows.runfolder.run_keys import RunKeys
from concord.schemas.columns import DOCUMENT_DIGEST
from concord.schemas.run import RuleStrengths
from concord.workers.labelling.kept import Known, cheaper, known
from concord.workers.labelling.last_answers import FileIndex, LastAnswers
from concord.workers.labelling.output import PREDICTIONS
from concord.workers.storage.storage import FolderStorage, Storage
from concord.workers.storage.tables import read_unthreaded

AnswerFile = tuple[str, str]
"""A file of predictions, and its SHA-256."""


def last_answers(storage: Storage, done: Markers, rules: RuleStrengths) -> LastAnswers:
    """The answers of the last run that a run with these constraints may take for the shards that are not ``done``.

    None are taken from a folder that is damaged, or that an older version of concord wrote.
    """
    try:
        run = published(storage.uri)
        may = known(run.manifest.run, done.key, run.manifest.rules, rules)
        if may is Known.NOTHING:
            return LastAnswers.none()
        same, gone = _files(run, done)
    except PublishedError:
        return LastAnswers.none()
    there = storage
    if isinstance(storage, FolderStorage):
        # Readers' names lead to another folder as soon as this run is published; this one stays until then.
        there = FolderStorage((storage.root / PREDICTIONS).resolve().parent)
    digests = (own for _, own in asked(there, lambda file: _digests(there, file[0]), gone))
    return LastAnswers(
        storage=there,
        files=(*same.values(), *gone),
        shards=FileIndex.of([shard] for shard in same),
        documents=FileIndex.of(digests, first=len(same)),
        known=may,
        cheaper=cheaper(run.manifest.rules, rules),
    )


def _files(run: Published, done: Markers) -> tuple[dict[bytes, AnswerFile], list[AnswerFile]]:
    """Files of predictions of the last run: those of shards that are to be done again, by id, and of shards gone.

    Under the key of the last run, shards that have not changed have the keys that they had.
    """
    keys = done.keys if run.manifest.run == done.key else RunKeys(done.shards, run.manifest.run)
    same, gone = dict[bytes, AnswerFile](), list[AnswerFile]()
    for shard in run.shards():
        places = keys.places(shard.place.key)
        own = (file for file in shard.files.items() if file[0].startswith(f"{PREDICTIONS}/"))
        if not places:
            gone += own
        elif not done.has(places[0]):
            same |= dict.fromkeys([done.shards.ids[places[0]].tobytes()], next(own))
    return same, gone


def _digests(storage: Storage, path: str) -> list[bytes]:
    """The digests of a file's documents, of which no more is read; none of a file that is damaged."""
    try:
        with storage.opened(path) as file:
            digests: list[bytes] = read_unthreaded(file, [DOCUMENT_DIGEST])[DOCUMENT_DIGEST].to_pylist()
            return digests
    except (pa.ArrowException, OSError, KeyError):
        return []
