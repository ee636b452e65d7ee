"""What is best learned of layers (taggers' answers), judged on held-out documents beside the answers as they are.

Candidates, by entity F1 of documents that nothing was learned from: a layer as it is; a layer with each name copied to
its other places in the document; a model of the layers alone, of the words alone, and of both. The one with the
highest F1 is taken. If that is no learned one, the model gives the layer's answers as they were judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from concord.schemas.document import Batch, Document
from concord.schemas.errors import TrainingError
from concord.schemas.labels import OUTSIDE, LabelSet
from concord.schemas.layers import NO_ANSWER, layer_columns, types_under
from concord.schemas.settings import Validation
from concord.workers.evaluation.bootstrap import Comparison
from concord.workers.evaluation.figures import f1_of_counts
from concord.workers.evaluation.named_counts import Counts
from concord.workers.features.derived import feature_columns
from concord.workers.features.templates import COPIED, LAYER, feature_set, layers_part
from concord.workers.learning.search.trials import Trial, best_of
from concord.workers.learning.trainers.entity_counts import entity_counts
from concord.workers.learning.trainers.fit import Fitting
from concord.workers.learning.trainers.selection import cross_validated
from concord.workers.learning.trainers.trainer import Iteration, Progress, Train, labels_of
from concord.workers.models.crf import CrfModel
from concord.workers.models.settings import FeatureSettings, FittingSettings

LAYER_FOLDS = 3
TAGS = "pos"
"""Feature set of a column that not every corpus has, and the column."""
CERTAIN = 10.0
"""Nats by which a layer's label is better than any other, where a model gives the answers as they are."""
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


class LayersChoice(NamedTuple):
    """The candidates with their counts (D, 3) of entities, the best of them, and the best that learns nothing."""

    trials: Sequence[Trial[Candidate]]

    @property
    def best(self) -> Trial[Candidate]:
        """The candidate that is taken."""
        return best_of(self.trials)

    @property
    def unlearned(self) -> Trial[Candidate]:
        """The best candidate that learns nothing."""
        return best_of(trial for trial in self.trials if trial.setting.settings is None)

    @property
    def gain(self) -> Comparison:
        """F1 of the best candidate minus that of the best one that learns nothing, by the paired bootstrap."""
        return self.best.gain(self.unlearned)


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
    learned = _learned(settings, documents)
    counts_of = {
        way.name: cross_validated(documents, train, way.settings, folds=LAYER_FOLDS, validation=validation)
        for way in learned
        if way.settings is not None
    }
    judged = min(map(len, counts_of.values()))  # with `Validation.LATER` the first documents are not
    labels = labels_of(documents)
    for name in settings.layers:
        for use, begin in (("as it is", LAYER), ("copied", COPIED)):
            way = Candidate(f"{name} {use}", f"{begin}{name}")
            trials.append(Trial(way, _counts(documents[-judged:], labels, f"{begin}{name}"), f1_of_counts))
    trials += [Trial(way, counts_of[way.name], f1_of_counts) for way in learned]
    for trial in trials:
        if progress is not None:
            progress(trial)
    return LayersChoice(trials)


def _learned(settings: FeatureSettings, documents: Sequence[Document]) -> list[Candidate]:
    """The ways that learn; the words alone are one of them, since a tagger may have nothing to add."""
    part = layers_part(settings.layers)
    words = settings.features
    if "features" not in settings.model_fields_set and not all(TAGS in document.columns for document in documents):
        words = "+".join(name for name in words.split("+") if name != TAGS)
    both = Candidate("learned beside the words", settings=settings.model_copy(update={"features": f"{words}+{part}"}))
    alone = settings.model_copy(update={"features": words, "layers": ()})
    if "features" in settings.model_fields_set:
        return [Candidate(f"{words} alone", settings=alone), both]
    learned = Candidate("learned", settings=settings.model_copy(update={"features": part}))
    return [learned, Candidate("words alone", settings=alone), both]


# Answers as they are


def own_labels(labels: LabelSet, answers: Iterable[str]) -> list[str]:
    """Labels of the label set for those of a layer; a type that the set does not have is outside.

    Of a label above several types the first one counts that the set has.
    """
    return [_own(labels, answer) for answer in answers]


def _own(labels: LabelSet, answer: str) -> str:
    for kind in types_under(answer[2:]):
        for name in (answer[:2] + kind, kind):
            if name in labels.index:
                return name
    return OUTSIDE if OUTSIDE in labels.index else labels.names[0]


def _counts(documents: Sequence[Document], labels: LabelSet, answers: str) -> Counts:
    """(D, 3) gold, predicted and correct entities of each document by a layer's answers.

    - ``answers``: a feature set of one column.
    """
    batch, features = Batch.of(documents), feature_set(answers)
    (column,) = (feature_columns(batch, features)[name] for name in features.columns)
    return entity_counts(documents, labels, own_labels(labels, column.values), column.codes)


def answering(answers: str) -> Train:
    """A trainer of models that give a layer's answers, as they are or copied, under the label set of the documents.

    - ``answers``: a feature set of one column, `LAYER` or `COPIED` with the layer's name.
    """

    def train(
        documents: Iterable[Document], *, settings: FeatureSettings, out: Path, progress: Progress | None = None
    ) -> CrfModel:
        del settings  # nothing is learned
        fitting = Fitting.of(documents, settings=FittingSettings(features=answers), trainer=ANSWERING)
        start = fitting.start(out)
        order = [fitting.labels.names[i] for i in fitting.order.tolist()]
        attributes = [str(name).partition("=")[2] for name in fitting.attributes.names().to_pylist()]
        outside = order.index(OUTSIDE) if OUTSIDE in order else 0
        own = own_labels(fitting.labels, attributes)
        wanted = np.array([order.index(name) if name in order else outside for name in own], np.int32)
        weights = np.where(wanted[:, None] == np.arange(len(order)), CERTAIN, 0.0)
        if progress is not None:
            progress(Iteration(1, 1))
        return fitting.save(out, start + fitting.chains.point(fitting.chains.of_states(weights)), iterations=1)

    return train
