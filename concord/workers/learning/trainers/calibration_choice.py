"""Choice of what calibration learns of a tagger's scores, by cross-validation over documents.

Temperature and transitions are learned on some folds and judged on another, by entity F1 of the best legal labels;
where two ways have the same F1, as temperatures without transitions have, the lower loss of the gold labels decides,
and after that the simpler way. The scores as they were imported are one of the ways, so a calibration that makes
labels worse is not taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from concord.schemas.document import Batch, Document
from concord.schemas.errors import TrainingError
from concord.schemas.labels import OUTSIDE, Labels, LabelSet
from concord.schemas.settings import Validation
from concord.workers.evaluation.figures import f1_of_counts
from concord.workers.evaluation.measures import Pair, spans
from concord.workers.evaluation.named_counts import Counts
from concord.workers.inference.core.chain import viterbi
from concord.workers.learning.estimation.lbfgs import Limits
from concord.workers.learning.search.folds import rounds
from concord.workers.learning.trainers.calibration import calibrate, loss_of
from concord.workers.learning.trainers.selection import FOLDS
from concord.workers.learning.trainers.trainer import labels_of
from concord.workers.models.model import Model, viterbi_labels
from concord.workers.models.scores import ScoresModel, label_ids
from concord.workers.models.settings import CalibrationSettings, Fit

AS_IMPORTED: Fit = "neither"
NEAR = Limits(40, gradient=1e-4, decrease=1e-6)
"""Limits of the descent where a way is only judged."""
WAYS: tuple[Fit, ...] = (AS_IMPORTED, "temperature", "transitions", "both")
"""What may be learned, the simplest way first."""


class FitTrial(NamedTuple):
    """One way of calibration, judged on documents that it has not learned from.

    - ``fit``: what is learned.
    - ``f1``: entity F1, a fraction.
    - ``loss``: −log p(gold) in nats.
    """

    fit: Fit
    f1: float
    loss: float


class FitChoice(NamedTuple):
    """The best way of calibration.

    - ``trials``: all ways that could be judged, the simplest first.
    - ``tagger``: entity F1 of the tagger's own labels, each the best of its token, legal or not.
    """

    fit: Fit
    trials: tuple[FitTrial, ...]
    tagger: float


def choose_fit(
    documents: Sequence[Document],
    model: ScoresModel,
    settings: CalibrationSettings,
    progress: Callable[[FitTrial], None] | None = None,
) -> FitChoice:
    """The best way of calibration by `FOLDS`-fold cross-validation; of one that is asked for, its figures alone.

    Raises `TrainingError` for fewer than two documents, and the errors of `calibrate` where no way can be judged.
    """
    if len(documents) < 2:
        raise TrainingError("one document cannot be judged by another; give more, or say what is learned with --fit")
    labels = labels_of(documents, model.labels.names)
    ways = WAYS if settings.fit == "auto" else tuple(dict.fromkeys((AS_IMPORTED, settings.fit)))
    trials, faults = list[FitTrial](), list[TrainingError]()
    for way in ways:
        try:
            trials.append(_judged(documents, model, settings.model_copy(update={"fit": way}), labels))
        except TrainingError as error:
            faults.append(error)
            continue
        if progress is not None:
            progress(trials[-1])
    if not trials:
        raise faults[0]
    best = max(trials, key=lambda trial: (trial.f1, -trial.loss)).fit if settings.fit == "auto" else settings.fit
    return FitChoice(
        best, tuple(trials), _f1([_counts(documents, labels, model.labels, _own_labels(documents, model))])
    )


def viterbi_f1(documents: Sequence[Document], model: Model) -> float:
    """Entity F1, a fraction, of a model's best legal labels. Raises `TrainingError` for documents without gold."""
    labels = labels_of(documents, model.labels.names)
    return _f1([_counts(documents, labels, model.labels, viterbi_labels(model, Batch.of(documents)))])


def learned_model(documents: Sequence[Document], model: ScoresModel, settings: CalibrationSettings) -> ScoresModel:
    """The model with what was learned from the documents, near enough to be judged; it is not saved.

    Raises the errors of `calibrate`.
    """
    if settings.fit == AS_IMPORTED:
        return model
    found = calibrate(documents, model, settings, limits=NEAR)
    return replace(model, source=found.source, transition=found.transition)


def _judged(
    documents: Sequence[Document], model: ScoresModel, settings: CalibrationSettings, labels: LabelSet
) -> FitTrial:
    counts, loss = list[Counts](), 0.0
    for learned, judged in rounds(documents, min(FOLDS, len(documents)), Validation.RANDOM):
        fitted = learned_model([documents[i] for i in learned], model, settings)
        part = [documents[i] for i in judged]
        counts.append(_counts(part, labels, model.labels, viterbi_labels(fitted, Batch.of(part))))
        loss += loss_of(part, fitted)
    return FitTrial(settings.fit, _f1(counts), loss)


def _own_labels(documents: Sequence[Document], model: ScoresModel) -> Labels:
    """(N,) the tagger's own labels: under its own transitions if it has any, and legal or not."""
    batch = Batch.of(documents)
    if model.transition.any():
        return viterbi(model.potentials(batch))
    assert batch.scores is not None
    ids = label_ids(model.source, model.labels)
    # A token that the tagger gives to padding is outside of all spans.
    ids = np.where(ids < 0, model.labels.index.get(OUTSIDE, 0), ids).astype(np.int32)
    own: Labels = ids[batch.scores.argmax(axis=1)]
    return own


def _counts(documents: Sequence[Document], labels: LabelSet, own: LabelSet, found: Labels) -> Counts:
    """(D, T, 3) gold, predicted and correct spans of each document by type."""
    batch = Batch.of(documents)
    assert batch.labels is not None
    mine: Labels = labels.encode(list(own.names))[found]
    gold = labels.encode(list(batch.labels.values))[batch.labels.codes]
    return spans(Pair(batch, labels, gold, mine)).by_document()


def _f1(counts: Sequence[Counts]) -> float:
    return float(f1_of_counts(sum(part.sum(axis=(0, 1)) for part in counts)))
