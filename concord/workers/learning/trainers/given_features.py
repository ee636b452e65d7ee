"""Feature sets that a trainer's settings name, with the files, entities and words that they look up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from concord.schemas.document import Document
from concord.schemas.errors import TrainingError
from concord.schemas.settings import TrainerSettings
from concord.workers.features.clustering.vectors import read_vectors
from concord.workers.features.clusters import WORD_TABLE, ClusterFileError, read_clusters
from concord.workers.features.gazetteer_files import GazetteerFileError, read_entries
from concord.workers.features.gazetteers import ENTITIES, GAZETTEER, LONGEST, SEEN_WORDS, Gazetteer, PhraseEntry
from concord.workers.features.resources import ResourceKind, place_of, reading
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
from concord.workers.models.encoder import encoder_at
from concord.workers.models.folder import ModelError
from concord.workers.models.settings import FeatureSettings, SgdSettings, VectorSettings

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
        lists[GAZETTEER] = Gazetteer.of((entry, None) for file in settings.gazetteers for entry in _phrases(file))
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
    try:
        return feature_set(name, _cluster_files(settings), lists, vectors)
    except ClusterFileError:
        for file in settings.clusters or ():
            _check_clusters(file)  # which says what to do where the file is a resource's
        raise


def check_given(settings: TrainerSettings) -> None:
    """Raises what training would raise of the features and of files beside the documents, before these are read.

    Of word vectors the first alone is read.
    """
    for option in settings.files:
        for place in settings.places([option]):
            if option not in FEATURE_FILES:
                _check_there(option, place)
    if isinstance(settings, VectorSettings):
        features_of(settings.model_copy(update={"vector_words": 1}), [])
    elif isinstance(settings, FeatureSettings):
        features_of(settings, [])


def check_resource(kind: ResourceKind, path: str) -> None:
    """Raises what training would raise of a file or folder that is to have a name."""
    if kind is ResourceKind.ENCODER:
        _check_encoder(Path(path))
    else:
        files = (path,) if kind is ResourceKind.GAZETTEERS else path
        features_of(SgdSettings.model_validate({"features": "core", kind: files}), [])


def _check_encoder(folder: Path) -> None:
    """Raises `ModelError` for an encoder that gives a word no state."""
    encoder = encoder_at(folder)
    try:
        _ = encoder.width  # known once the network has run
    except ModelError as error:
        raise ModelError(f"{folder}: {error}") from error


def _check_there(option: str, value: str) -> None:
    with reading(option, value) as place:
        if not place.exists():
            raise TrainingError(f"{place}: no such file or folder, which {option} names; give one that is there")


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


def _check_clusters(file: str) -> None:
    """Raises what reading a user's cluster file, or a resource's, would raise."""
    with reading(CLUSTERS, file) as path:
        read_clusters(path)


def _vectors(settings: FeatureSettings) -> WordVectors | None:
    """Word vectors of the settings. Raises `VectorError`, and `OSError`."""
    if not isinstance(settings, VectorSettings) or settings.vectors is None:
        return None
    words = None if settings.vector_index is None else Path(settings.vector_index).expanduser()
    with reading(VECTORS, settings.vectors) as file:
        vectors = read_vectors(file, settings.vector_words, words=words, words_option="--set vector_index=FILE")
    return WordVectors.scaled(*vectors, settings.vector_scale)


def _phrases(file: str) -> list[PhraseEntry]:
    """Phrases of a user's file, or of a resource. Raises `GazetteerFileError` if there are none."""
    with reading(ResourceKind.GAZETTEERS, file) as path:
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
