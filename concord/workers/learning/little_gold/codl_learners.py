"""Learners for constraint-driven learning: a model of labelled documents, mixed with one of the labelled pool.

Both models know the pool's words from the start. Hidden Markov models are mixed by probabilities or their logarithms.
Perceptrons are mixed by weights, over all features of the labelled documents and of the pool. A feature that only the
pool has weighs 0 in the first model; the purpose of the pool is to learn such features. Features that are made of
labels (`entities`, `seen`) come from labelled documents only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from concord.schemas.arrays import Floats, Ids, Ints
from concord.schemas.codl import CycleSettings
from concord.schemas.document import TOKENS, Batch, Document
from concord.schemas.labels import Labels, LabelSet
from concord.workers.features.derived import needed_columns
from concord.workers.features.incidence import incidence, pair_incidence
from concord.workers.learning.estimation.chains import FeatureRules, GoldChains, TrainingChains
from concord.workers.learning.estimation.hmm_counts import HmmCounts, counted, estimated, mixed
from concord.workers.learning.estimation.perceptron import run_passes
from concord.workers.learning.estimation.token_vectors import TokenVectors
from concord.workers.learning.trainers.fit import Fitting
from concord.workers.learning.trainers.given_features import features_of
from concord.workers.learning.trainers.hmm import Read, read_words
from concord.workers.learning.trainers.trainer import TrainingCounts
from concord.workers.models.crf import CrfModel
from concord.workers.models.folder import begin
from concord.workers.models.hmm import HmmModel, Tables, save
from concord.workers.models.settings import HmmSettings, PerceptronSettings

NAME = "codl"

ModelParts = tuple[Floats, ...]
"""A model as arrays, which can be mixed with those of another model."""


class LearningWay(NamedTuple):
    """One labelling of the pool.

    - ``labels`` (N,): the labels.
    - ``share`` (N,): count of each token, a fraction of 1.
    """

    labels: Labels
    share: Floats


def straight(first: Floats, second: Floats, gamma: float) -> Floats:
    """Mixture γ · first + (1 − γ) · second of logarithms or weights, as the paper prints it."""
    return gamma * first + (1.0 - gamma) * second


MIXED = {"probabilities": mixed, "logarithms": straight}


@dataclass(frozen=True)
class HmmLearner:
    """Learner of hidden Markov models.

    - ``read``: words of the labelled documents and of the pool.
    - ``first``: model of the labelled documents.
    - ``counts``: counts and digest of the documents, for the manifest.
    """

    labels: LabelSet
    read: Read
    first: ModelParts
    counts: TrainingCounts
    settings: CycleSettings

    @classmethod
    def of(cls, documents: Sequence[Document], pool: Sequence[Document], settings: CycleSettings) -> HmmLearner:
        """Learner with a model of the labelled documents. Raises `TrainingError` where one of them has no labels."""
        counts = _counts_of(documents, pool, (TOKENS,))
        labels = counts.label_set(settings.labels)
        read = read_words(list(documents), list(pool), labels)
        first = estimated(counted(read.gold, read.word, len(read.words)), read.shape_of)
        return cls(labels, read, first, counts, settings)

    def learned(self, ways: Sequence[LearningWay]) -> ModelParts:
        """Mixture of the first model and of a model of the pool, which is labelled in one or more ways."""
        words, size, labels = self.read.unlabelled, len(self.read.words), len(self.labels)
        counts = [counted(GoldChains(words.bounds, way.labels, labels), words.word, size, way.share) for way in ways]
        new = estimated(HmmCounts(*(sum(parts) for parts in zip(*counts, strict=True))), self.read.shape_of)
        mix, gamma = MIXED[self.settings.mixing], self.settings.gamma
        return tuple(mix(*pair, gamma) for pair in zip(self.first, new, strict=True))

    def save(self, parts: ModelParts, folder: Path) -> HmmModel:
        """The model of these parts as a folder. Raises `OutputError`."""
        training: dict[str, Any] = self.counts.training(NAME, self.settings.mixture)
        begin(folder)
        words, shapes, settings = self.read.words, self.read.shapes, HmmSettings(labels=self.labels.names)
        return save(folder, self.labels, words, shapes, Tables(*parts), settings=settings, training=training)


@dataclass(frozen=True)
class PerceptronLearner:
    """Learner of averaged perceptrons.

    - ``fitting``: labelled documents, then the pool, in one feature space; the pool's labels in it have no meaning.
    - ``tokens``: number of tokens of the labelled documents.
    - ``sentences``: number of sentences of the labelled documents.
    - ``first``: weights learned from the labelled documents.
    - ``counts``: counts and digest of the documents, for the manifest.
    """

    labels: LabelSet
    fitting: Fitting
    tokens: int
    sentences: int
    first: ModelParts
    counts: TrainingCounts
    settings: CycleSettings

    @classmethod
    def of(cls, documents: Sequence[Document], pool: Sequence[Document], settings: CycleSettings) -> PerceptronLearner:
        """Learner with a model of the labelled documents.

        Raises `TrainingError`, `ColumnError`, and `FeatureSetError` for features that are not there.
        """
        inner = PerceptronSettings(features=settings.features, passes=settings.passes)
        features = features_of(inner, documents)
        columns = needed_columns(features)
        counts = _counts_of(documents, pool, columns)
        labels = counts.label_set(settings.labels)
        order = np.sort(labels.encode(sorted(counts.names.union(settings.labels))))
        batch = Batch.of([_only(document, columns) for document in (*documents, *pool)])
        own = labels.encode([label for d in documents if d.labels is not None for label in d.labels.strings()])
        gold = np.zeros(batch.token_count, np.int32)
        gold[: len(own)] = np.searchsorted(order, own)
        states, pairs = incidence(batch, features), pair_incidence(batch, features)
        rules = FeatureRules(inner.min_freq, inner.all_possible_states, inner.all_possible_transitions)
        chains = TrainingChains.of(states, GoldChains(batch.sentence_bounds, gold, len(order)), rules, pairs)
        vectors = TokenVectors.none(batch.token_count, len(order))
        fitting = Fitting(features, inner, {}, states.attributes, chains, labels, order, vectors, pairs.attributes)
        sentences = sum(len(document.sentence_starts) for document in documents)
        first = _weights(fitting, batch.sentence_bounds[: sentences + 1], gold)
        return cls(labels, fitting, len(own), sentences, (first,), counts, settings)

    def learned(self, ways: Sequence[LearningWay]) -> ModelParts:
        """Mixture of the first weights and those of the pool; if it is labelled in several ways, their mean is used."""
        gold, order = self.fitting.chains.gold, self.fitting.order
        bounds, own = gold.bounds[self.sentences :], gold.labels[: self.tokens]
        labellings = [np.concatenate([own, np.searchsorted(order, way.labels)]).astype(np.int32) for way in ways]
        mean = np.mean([_weights(self.fitting, bounds, labels) for labels in labellings], axis=0)
        return (straight(self.first[0], mean, self.settings.gamma),)

    def save(self, parts: ModelParts, folder: Path) -> CrfModel:
        """The model of these parts as a folder. Raises `OutputError`."""
        training = self.counts.training(NAME, self.settings.mixture)
        begin(folder)
        return replace(self.fitting, training=training).save(folder, *parts)


Learner = HmmLearner | PerceptronLearner

LEARNERS: dict[str, type[Learner]] = {"hmm": HmmLearner, "perceptron": PerceptronLearner}


def learner_of(documents: Sequence[Document], pool: Sequence[Document], settings: CycleSettings) -> Learner:
    """The learner that the settings name, see ``of`` of each of `LEARNERS`."""
    return LEARNERS[settings.trainer].of(documents, pool, settings)


def _counts_of(documents: Sequence[Document], pool: Sequence[Document], columns: tuple[str, ...]) -> TrainingCounts:
    counts = TrainingCounts(columns)
    for document in documents:
        counts.gold(document)
    for document in pool:
        counts.beside(document)
    return counts


def _only(document: Document, columns: Sequence[str]) -> Document:
    there = {name: document.columns[name] for name in columns if name in document.columns}
    return Document(document.doc_id, document.sentence_starts, there)


def _weights(fitting: Fitting, bounds: Ints, labels: Ids) -> Floats:
    """Averaged perceptron weights (size,) of the sentences with these bounds, given labels (N,) of all tokens."""
    assert isinstance(fitting.settings, PerceptronSettings)
    chains = replace(fitting.chains, gold=GoldChains(bounds, labels, fitting.chains.gold.width))
    point = np.zeros(chains.size)
    for _ in run_passes(chains, point, fitting.settings.passes, np.random.default_rng(fitting.settings.seed)):
        pass
    return point
