"""The last published run of an output folder, as far as the next one may take its answers."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pyarrow as pa

from concord.flows.runfolder.lists import LISTED_AT_ONCE, ListedShard
from concord.flows.runfolder.markers import Markers
from concord.flows.runfolder.published import Published, PublishedError, published
from concord.flows.runfolder.storage_queries import ask_all
from concord.schemas.arrays import Ints
from concord.schemas.columns import DOCUMENT_DIGEST
from concord.schemas.run import RuleStrengths
from concord.workers.labelling.kept import Reusable, cheaper, reusable
from concord.workers.labelling.last_answers import AnswerFiles, FileIndex, LastAnswers
from concord.workers.labelling.output import PREDICTIONS
from concord.workers.storage.storage import FolderStorage, Storage
from concord.workers.storage.tables import read_unthreaded


def last_answers(storage: Storage, done: Markers, rules: RuleStrengths) -> LastAnswers:
    """The answers of the last run that a run with these constraints may take for the shards that are not ``done``.

    None are taken from a folder that is damaged, or that an older version of concord wrote.
    """
    try:
        run = published(storage.uri)
        may = reusable(run.manifest.run, done.key, run.manifest.rules, rules)
        if may is Reusable.NOTHING:
            return LastAnswers.none()
        places, same, gone = _files(run, done)
    except PublishedError:
        return LastAnswers.none()
    there = storage
    if isinstance(storage, FolderStorage):
        # Readers' names lead to another folder as soon as this run is published; this one stays until then.
        there = FolderStorage((storage.root / PREDICTIONS).resolve().parent)
    digests = (own for _, own in ask_all(there, lambda file: _digests(there, file[0]), gone))
    return LastAnswers(
        storage=there,
        files=AnswerFiles.joined([same, gone]),
        shards=FileIndex.of([shard.tobytes()] for shard in done.shards.ids[places]),
        documents=FileIndex.of(digests, first=len(same)),
        known=may,
        cheaper=cheaper(run.manifest.rules, rules),
    )


def _files(run: Published, done: Markers) -> tuple[Ints, AnswerFiles, AnswerFiles]:
    """Files of the last run: of shards that are to be done again, with their places, and of shards that are gone."""
    keys = done.keys_under(run.manifest.run)
    places, same, gone = list[int](), list[AnswerFiles](), list[AnswerFiles]()
    shards = run.shards()
    while part := list(islice(shards, LISTED_AT_ONCE)):
        found = [(keys.first(shard.place.key), _predictions(shard)) for shard in part]
        gone.append(AnswerFiles.of(file for place, file in found if place is None))
        again = [(place, file) for place, file in found if place is not None and not done.has(place)]
        same.append(AnswerFiles.of(file for _, file in again))
        places += [place for place, _ in again]
    return np.array(places, np.int64), AnswerFiles.joined(same), AnswerFiles.joined(gone)


def _predictions(shard: ListedShard) -> tuple[str, str]:
    """The file of a shard's predictions, and its SHA-256."""
    return next(file for file in shard.files.items() if file[0].startswith(f"{PREDICTIONS}/"))


def _digests(storage: Storage, path: str) -> list[bytes]:
    """The digests of a file's documents, of which no more is read; none of a file that is damaged."""
    try:
        with storage.opened(path) as file:
            digests: list[bytes] = read_unthreaded(file, [DOCUMENT_DIGEST])[DOCUMENT_DIGEST].to_pylist()
            return digests
    except (pa.ArrowException, OSError, KeyError):
        return []
