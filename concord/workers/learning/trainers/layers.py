"""Chooses how to use layers (as they are, copied, or learned) by F1 on held-out documents.

Candidates, by entity F1 of documents that nothing was learned from: a layer as it is; a layer with each name copied to
its other places in the document; a model of the layers alone, of the words alone, and of both. The best layer as it is
is taken, unless others are better beyond chance: then the one of these with the highest F1. If that is no learned one,
the model gives the layer's answers as they were judged, under gold's names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from concord.schemas.document import Batch, Document
from concord.schemas.errors import TrainingError
from concord.schemas.gains import Comparison
from concord.schemas.labels import OUTSIDE, LabelSet
from concord.schemas.layers import NO_ANSWER, layer_columns
from concord.schemas.settings import Validation
from concord.workers.evaluation.figures import f1_of_counts
from concord.workers.evaluation.named_counts import Counts
from concord.workers.features.derived import feature_columns
from concord.workers.features.templates import COPIED, LAYER, feature_set, layers_part
from concord.workers.learning.search.trials import Trial, best_of
from concord.workers.learning.trainers.entity_counts import entity_counts
from concord.workers.learning.trainers.fit import Fitting
from concord.workers.learning.trainers.layer_names import TypeNames, every_answer, own_labels, types_in_gold
from concord.workers.learning.trainers.selection import cross_validated
from concord.workers.learning.trainers.trainer import Iteration, Progress, Train, labels_of
from concord.workers.models.crf import CrfModel
from concord.workers.models.settings import FeatureSettings, FittingSettings

LAYER_FOLDS = 3
CERTAIN = 10.0
"""Nats by which a layer's label is better than any other, where a model gives the answers as they are."""
UNKNOWN_OUTSIDE = 0.01
"""Nats for each step from or to the outside label: a label that the layer never gave in training is outside."""
ANSWERING = "answers"
"""Name, in the manifest, of what makes a model of answers as they are."""


class Candidate(NamedTuple):
    """One way to use layers.

    - ``name``: for people.
    - ``answers``: the feature set of a layer's answers, for a way that learns nothing.
    - ``settings``: settings of the trainer, for one that learns.
    """

    name: str
    answers: str | None = None
    settings: FeatureSettings | None = None

    @property
    def as_it_is(self) -> bool:
        """Is it a layer's answers, with nothing added?"""
        return self.answers is not None and self.answers.startswith(LAYER)


class LayersChoice(NamedTuple):
    """The way that is taken, and what it was judged by.

    - ``trials``: the candidates with their counts (D, 3) of entities.
    - ``base``: the best layer as it is.
    - ``gains``: entity F1 of each other candidate minus that of ``base``, by the paired bootstrap over documents.
    - ``best``: the candidate that is taken.
    - ``names``: gold's names for types of each layer, see `types_in_gold`.
    """

    trials: Sequence[Trial[Candidate]]
    base: Trial[Candidate]
    gains: Mapping[str, Comparison]
    best: Trial[Candidate]
    names: Mapping[str, TypeNames]

    @classmethod
    def of(cls, trials: Sequence[Trial[Candidate]], names: Mapping[str, TypeNames]) -> LayersChoice:
        """The less, a layer as it is, is taken unless more is better beyond chance."""
        base = best_of(trial for trial in trials if trial.setting.as_it_is)
        gains = {trial.setting.name: trial.gain(base) for trial in trials if trial is not base}
        better = [trial for trial in trials if trial is not base and gains[trial.setting.name].low > 0]
        return cls(trials, base, gains, best_of(better or [base]), names)


def check_layers(documents: Sequence[Document], names: Sequence[str]) -> None:
    """Raises `TrainingError` where documents have no such layer, or none of them an answer of it."""
    there = set.intersection(*(set(document.columns) for document in documents)) if documents else set[str]()
    known = sorted(name for name in there if layer_columns(name)[1] in there)
    for name in names:
        if name not in known:
            others = f"there are {', '.join(known)}" if known else "there are none; `concord import entities` makes one"
            raise TrainingError(f"the corpus has no layer {name!r}; {others}")
        if not any(NO_ANSWER not in document.columns[name].used() for document in documents):
            raise TrainingError(f"layer {name!r} has no answer to any of the documents")


def choose_layers(
    documents: Sequence[Document],
    train: Train,
    settings: FeatureSettings,
    *,
    validation: Validation = Validation.RANDOM,
    progress: Callable[[Trial[Candidate]], None] | None = None,
) -> LayersChoice:
    """Judges all candidates by cross-validation; of the features that are asked for, if any, those alone are learned.

    Raises `TrainingError` for too few documents, and where `check_layers` does; and the errors of training.
    """
    check_layers(documents, settings.layers)
    trials: list[Trial[Candidate]] = []
    learned = _learned(settings)
    counts_of = {
        way.name: cross_validated(documents, train, way.settings, folds=LAYER_FOLDS, validation=validation)
        for way in learned
        if way.settings is not None
    }
    judged = min(map(len, counts_of.values()))  # with `Validation.LATER` the first documents are not
    labels = labels_of(documents)
    names = {layer: types_in_gold(documents, labels, layer) for layer in settings.layers}
    for layer in settings.layers:
        for use, begin in (("as it is", LAYER), ("copied", COPIED)):
            way = Candidate(f"{layer} {use}", f"{begin}{layer}")
            counts = answer_counts(documents[-judged:], labels, f"{begin}{layer}", names[layer])
            trials.append(Trial(way, counts, f1_of_counts))
    trials += [Trial(way, counts_of[way.name], f1_of_counts) for way in learned]
    for trial in trials:
        if progress is not None:
            progress(trial)
    return LayersChoice.of(trials, names)


def _learned(settings: FeatureSettings) -> list[Candidate]:
    """The ways that learn; the words alone are one of them, since a tagger may have nothing to add."""
    part = layers_part(settings.layers)
    words = settings.features
    both = Candidate("learned beside the words", settings=settings.model_copy(update={"features": f"{words}+{part}"}))
    alone = settings.model_copy(update={"features": words, "layers": ()})
    if "features" in settings.model_fields_set:
        return [Candidate(f"{words} alone", settings=alone), both]
    learned = Candidate("learned", settings=settings.model_copy(update={"features": part}))
    return [learned, Candidate("words alone", settings=alone), both]


# Answers as they are


def answer_counts(documents: Sequence[Document], labels: LabelSet, answers: str, names: TypeNames) -> Counts:
    """(D, 3) gold, predicted and correct entities of each document by a layer's answers.

    - ``answers``: a feature set of one column.
    - ``names``: gold's names for types of the layer.
    """
    batch, features = Batch.of(documents), feature_set(answers)
    (column,) = (feature_columns(batch, features)[name] for name in features.columns)
    return entity_counts(documents, labels, own_labels(labels, column.values, names), column.codes)


def answering(answers: str) -> Train:
    """A trainer of models that give a layer's answers, as they are or copied, under gold's names for their types.

    - ``answers``: a feature set of one column, `LAYER` or `COPIED` with the layer's name.
    """

    def train(
        documents: Iterable[Document], *, settings: FeatureSettings, out: Path, progress: Progress | None = None
    ) -> CrfModel:
        del settings  # nothing is learned
        documents = list(documents)
        layer, labels = answers.partition(":")[2], labels_of(documents)
        names = types_in_gold(documents, labels, layer)
        every = every_answer(labels, layer, names)
        fitting = Fitting.of(documents, settings=FittingSettings(features=answers), trainer=ANSWERING, beside=[every])
        start = fitting.start(out)
        order = [fitting.labels.names[i] for i in fitting.order.tolist()]
        attributes = [str(name).partition("=")[2] for name in fitting.attributes.names().to_pylist()]
        outside = order.index(OUTSIDE) if OUTSIDE in order else 0
        own = own_labels(fitting.labels, attributes, names)
        wanted = np.array([order.index(name) if name in order else outside for name in own], np.int32)
        weights = fitting.chains.of_states(np.where(wanted[:, None] == np.arange(len(order)), CERTAIN, 0.0))
        transitions = np.zeros_like(weights.transitions)
        for pairs in (transitions[outside], transitions[:, outside]):
            pairs += UNKNOWN_OUTSIDE
        if progress is not None:
            progress(Iteration(1, 1))
        point = fitting.chains.point(weights._replace(transitions=transitions))
        return fitting.save(out, start + point, iterations=1)

    return train
