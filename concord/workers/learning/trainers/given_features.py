"""Feature sets that a trainer's settings name, with the files, entities and words that they look up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from concord.schemas.document import Document
from concord.schemas.errors import TrainingError
from concord.schemas.settings import TrainerSettings
from concord.workers.features.clustering.vectors import read_vectors
from concord.workers.features.clusters import WORD_TABLE
from concord.workers.features.gazetteer_files import GazetteerFileError, read_entries
from concord.workers.features.gazetteers import ENTITIES, GAZETTEER, LONGEST, SEEN_WORDS, Gazetteer, PhraseEntry
from concord.workers.features.resources import ResourceKind, place_of
from concord.workers.features.templates import (
    CLUSTERS,
    LAYER,
    LAYERS,
    OF_PAIRS,
    VECTORS,
    FeatureSet,
    FeatureSetError,
    feature_set,
    layers_part,
    lists_of,
)
from concord.workers.features.word_vectors import WordVectors
from concord.workers.learning.trainers.trainer import gold_of, labels_of
from concord.workers.models.settings import FeatureSettings, VectorSettings

FEATURE_FILES = (*FeatureSettings.files, *VectorSettings.files)
"""Options of files that `features_of` reads, and has messages of their own about."""


def features_of(settings: FeatureSettings, documents: Sequence[Document]) -> FeatureSet:
    """The feature set of the settings; its lists of entities and words come from these documents.

    Raises `FeatureSetError`, the errors of reading the features' files, and `TrainingError` where such lists need the
    labels of a document that has none.
    """
    check_pairs(settings)
    lists = {}
    if settings.gazetteers:
        entries = (entry for file in settings.gazetteers for entry in _phrases(place_of(ResourceKind.GAZETTEERS, file)))
        lists[GAZETTEER] = Gazetteer.of((entry, None) for entry in entries)
    name = settings.features
    for part, files in ((CLUSTERS, settings.clusters), (GAZETTEER, settings.gazetteers)):
        if files and not {part, OF_PAIRS + part, f"{part}-cased"} & set(name.split("+")):
            name = f"{name}+{part}"
    if settings.layers and LAYER not in name and LAYERS not in name:
        name = f"{name}+{layers_part(settings.layers)}"
    vectors = _vectors(settings)
    if vectors is not None and VECTORS not in name.split("+"):
        name = f"{name}+{VECTORS}"
    read = lists_of(name)
    if ENTITIES in read:
        lists[ENTITIES] = Gazetteer.of(entities_of(documents))
    if SEEN_WORDS in read:
        lists[SEEN_WORDS] = Gazetteer.of(_seen(documents))
    return feature_set(name, _cluster_files(settings), lists, vectors)


def check_given(settings: TrainerSettings) -> None:
    """Raises what training would raise of the features and of files beside the documents, before these are read.

    Of word vectors the first alone is read.
    """
    for option in settings.files:
        for place in settings.places([option]):
            if option not in FEATURE_FILES and not place_of(option, place).exists():
                raise TrainingError(f"{place}: no such file or folder, which {option} names; give one that is there")
    if isinstance(settings, VectorSettings):
        features_of(settings.model_copy(update={"vector_words": 1}), [])
    elif isinstance(settings, FeatureSettings):
        features_of(settings, [])


def check_pairs(settings: FeatureSettings) -> None:
    """Raises `FeatureSetError` for features of pairs of labels where the trainer learns none."""
    of_pairs = [part for part in settings.features.split("+") if part.startswith(OF_PAIRS)]
    if of_pairs and not settings.learns_pairs:
        raise FeatureSetError(
            f"the feature set {of_pairs[0]!r}: this trainer learns no features of pairs of labels; give --trainer sgd, "
            "lbfgs, ensemble or perceptron, or leave it out"
        )


def _cluster_files(settings: FeatureSettings) -> list[Path]:
    """Files of word clusters that the features read: those of the settings, or else the one that comes with us."""
    return [WORD_TABLE] if settings.reads_word_table else [place_of(CLUSTERS, file) for file in settings.clusters or ()]


def _vectors(settings: FeatureSettings) -> WordVectors | None:
    """Word vectors of the settings. Raises `VectorError`, and `OSError`."""
    if not isinstance(settings, VectorSettings) or settings.vectors is None:
        return None
    words = None if settings.vector_index is None else Path(settings.vector_index).expanduser()
    file, option = place_of(VECTORS, settings.vectors), "--set vector_index=FILE"
    vectors = read_vectors(file, settings.vector_words, words=words, words_option=option)
    return WordVectors.scaled(*vectors, settings.vector_scale)


def _phrases(path: Path) -> list[PhraseEntry]:
    """Phrases of a user's file. Raises `GazetteerFileError` if there are none."""
    entries = list(read_entries(path))
    if not entries:
        raise GazetteerFileError(f"{path}: there are no phrases in it")
    return entries


def entities_of(documents: Sequence[Document]) -> Iterator[tuple[PhraseEntry, str]]:
    """Each labelled entity of at most `LONGEST` tokens, with its type and the id of its document."""
    if not documents:
        return
    labels = labels_of(documents)
    for document in documents:
        words, spans = document.tokens, labels.spans(labels.encode(gold_of(document)), document.sentence_starts)
        for start, end, kind in zip(spans.start.tolist(), spans.end.tolist(), spans.type.tolist(), strict=True):
            if end - start <= LONGEST:
                yield (tuple(words[start:end]), labels.types[kind]), document.doc_id


MOST_SEEN = 3
"""Largest count of a word with a label that is told apart; all counts from this one on are the same."""


def _seen(documents: Sequence[Document]) -> Iterator[tuple[PhraseEntry, str]]:
    """Each word of each document, with a label it has there, how often it has it in all, and the document's id."""
    pairs = [Counter(zip(document.tokens, gold_of(document), strict=True)) for document in documents]
    total = Counter[tuple[str, str]]()
    for own in pairs:
        total.update(own)
    for document, own in zip(documents, pairs, strict=True):
        for word, label in own:
            times = total[word, label]
            counted = str(times) if times < MOST_SEEN else f"{MOST_SEEN}+"
            yield ((word,), f"{label}:{counted}"), document.doc_id
