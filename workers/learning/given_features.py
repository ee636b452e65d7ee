"""The features that a trainer's settings name, with the files and the entities that they read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from schemas.document import Document
from schemas.labels import LabelSet
from schemas.settings import FeatureSettings
from workers.features.gazetteer_files import GazetteerFileError, read_entries
from workers.features.gazetteers import ENTITIES, GAZETTEER, LONGEST, Entry, Gazetteer
from workers.features.templates import FeatureSet, feature_set, lists_of
from workers.learning.trainers.trainer import gold_of


def features_of(settings: FeatureSettings, documents: Sequence[Document]) -> FeatureSet:
    """The features to learn from these documents with.

    Raises `FeatureSetError`, and what reading the files of the features raises; `TrainingError` where the entities of a
    document without labels are asked for.
    """
    lists = {}
    if settings.gazetteers:
        entries = (entry for path in settings.gazetteers for entry in _phrases(Path(path).expanduser()))
        lists[GAZETTEER] = Gazetteer.of((entry, None) for entry in entries)
    if ENTITIES in lists_of(settings.features):
        lists[ENTITIES] = Gazetteer.of(_entities(documents))
    return feature_set(settings.features, settings.clusters, lists)


def _phrases(path: Path) -> list[Entry]:
    """What a user's file says, which has to be something."""
    entries = list(read_entries(path))
    if not entries:
        raise GazetteerFileError(f"{path}: there are no phrases in it")
    return entries


def _entities(documents: Sequence[Document]) -> Iterator[tuple[Entry, str]]:
    """The labelled entities, and the ids of the documents that they are in."""
    labels = LabelSet.infer({name for document in documents for name in gold_of(document)})
    for document in documents:
        words, spans = document.tokens, labels.spans(labels.encode(gold_of(document)), document.sentence_starts)
        for start, end, kind in zip(spans.start.tolist(), spans.end.tolist(), spans.type.tolist(), strict=True):
            if end - start <= LONGEST:
                yield (tuple(words[start:end]), labels.types[kind]), document.doc_id
