"""A memory-based model of label n-grams, for constraint-satisfaction inference: it keeps all training tokens.

Canisius, Van den Bosch & Daelemans (2011) §4.1: the class of a token is its label together with its neighbours' labels.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from concord.schemas.arrays import Ids, Ints
from concord.schemas.document import Batch, Document
from concord.schemas.labels import Labels, LabelSet, Scheme
from concord.workers.features.gazetteers import Gazetteer
from concord.workers.learning.trainers.given_features import entities_of
from concord.workers.learning.trainers.trainer import Iteration, Progress, TrainingCounts
from concord.workers.models.folder import begin
from concord.workers.papers.canisius.settings import TrigramSettings, TrigramWindow, Weighting
from concord.workers.papers.canisius.trigram import Instances, TrigramModel, save
from concord.workers.papers.canisius.windows import WINDOW_COLUMNS, Windows, gains, values_of

NAME = "trigram"


def train(
    documents: Iterable[Document], *, settings: TrigramSettings, out: Path, progress: Progress | None = None
) -> TrigramModel:
    """See `workers.learning.trainers.trainer.Train`."""
    corpus_counts, read_documents = TrainingCounts(WINDOW_COLUMNS[settings.windows]), list[Document]()
    for document in documents:
        corpus_counts.gold(document)
        read_documents.append(Document(document.doc_id, document.sentence_starts, document.columns, document.labels))
    training = corpus_counts.training(NAME, settings)
    labels = label_set(corpus_counts.label_set(settings.labels), settings)
    begin(out)
    windows = Windows(settings.windows, entities_for(read_documents, settings))
    batch = Batch.of(read_documents)
    assert batch.labels is not None
    values, instances = instances_of(batch, windows, labels.encode(batch.labels.strings()), settings)
    if progress is not None:
        progress(Iteration(1, 1))
    training |= {"features": len(values), "classes": len(instances.labels)}
    return save(out, labels, windows, values, instances, settings=settings, training=training)


def label_set(inferred: LabelSet, settings: TrigramSettings) -> LabelSet:
    """The label set, with the scheme that the settings ask for."""
    if inferred.scheme is Scheme.BIO and settings.legality == "loose":
        return LabelSet(inferred.names, Scheme.LOOSE)
    return inferred


def entities_for(documents: list[Document], settings: TrigramSettings) -> Gazetteer | None:
    """Entities of the documents, for windows of names; None for other windows."""
    if settings.windows is not TrigramWindow.NAMES:
        return None
    entities = Gazetteer.of(entities_of(documents))
    return entities if settings.held_out else entities.for_all


def instances_of(
    batch: Batch, windows: Windows, gold: Labels, settings: TrigramSettings
) -> tuple[list[list[str]], Instances]:
    """Names of the values of each feature, and all tokens of a batch as training instances."""
    read = [values_of(column) for column in windows.features(batch)]
    around = labels_around(gold, batch.sentence_bounds, settings.n)
    return [names for names, _ in read], remembered(np.stack([codes for _, codes in read]), around, settings)


def remembered(values: Ids, around: Ints, settings: TrigramSettings) -> Instances:
    """Training instances of M tokens, from feature values (F, M) and the labels around each token (M, n)."""
    labels, classes = _by_frequency(around)
    weights = np.array([_weight(codes, classes, settings.weighting) for codes in values])
    return Instances(values, classes, weights, labels)


def label_classes(gold: Labels, bounds: Ints, n: int) -> tuple[Ints, Ids]:
    """Distinct label n-grams (C, n), and the number (N,) of each token's; the token's own label is at n // 2."""
    return _by_frequency(labels_around(gold, bounds, n))


def labels_around(gold: Labels, bounds: Ints, n: int) -> Ints:
    """(N, n) labels of each token and its neighbours, −1 beyond the sentence; the token's own label is at n // 2."""
    around = np.full((len(gold), n), -1)
    token = np.arange(len(gold))
    begins, ends = (np.repeat(side, np.diff(bounds)) for side in (bounds[:-1], bounds[1:]))
    for place in range(n):
        at = token + place - n // 2
        inside = (at >= begins) & (at < ends)
        around[inside, place] = gold[at[inside]]
    return around


def _by_frequency(around: Ints) -> tuple[Ints, Ids]:
    """Distinct rows, the most frequent first, ties in the order of labels; and the number of each row among them."""
    classes, which, times = np.unique(around, axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(-times, kind="stable")
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return classes[order], rank[which.ravel()]


def _weight(values: Ids, classes: Ids, weighting: Weighting) -> float:
    if weighting is Weighting.NONE:
        return 1.0
    gain, split = gains(values.astype(np.int64), classes.astype(np.int64))
    if weighting is Weighting.INFORMATION_GAIN:
        return max(gain, 0.0)
    return max(gain, 0.0) / split if split > 0 else 0.0
