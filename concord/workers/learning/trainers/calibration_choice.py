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
from concord.workers.evaluation.named_counts import Counts
from concord.workers.inference.core.chain import viterbi
from concord.workers.learning.estimation.lbfgs import Limits
from concord.workers.learning.search.folds import counts_by_rounds
from concord.workers.learning.search.trials import SettingsSearch, Trial
from concord.workers.learning.trainers.calibration import calibrate, loss_of
from concord.workers.learning.trainers.entity_counts import entity_counts, viterbi_counts
from concord.workers.learning.trainers.selection import FOLDS
from concord.workers.learning.trainers.trainer import labels_of
from concord.workers.models.model import Model
from concord.workers.models.scores import ScoresModel, label_ids
from concord.workers.models.settings import CalibrationSettings, Fit

AS_IMPORTED: Fit = "neither"
NEAR = Limits(40, gradient=1e-4, decrease=1e-6)
"""Limits of the descent where a way is only judged."""
WAYS: tuple[Fit, ...] = (AS_IMPORTED, "temperature", "transitions", "both")
"""What may be learned, the simplest way first."""


class FitChoice(NamedTuple):
    """The best way of calibration.

    - ``trials``: all ways that could be judged, the simplest first, by counts (D, 3) of entities.
    - ``tagger``: entity F1 of the tagger's own labels, each the best of its token, legal or not.
    """

    fit: Fit
    trials: tuple[Trial[Fit], ...]
    tagger: float


def choose_fit(
    documents: Sequence[Document],
    model: ScoresModel,
    settings: CalibrationSettings,
    progress: Callable[[Trial[Fit]], None] | None = None,
) -> FitChoice:
    """The best way of calibration by `FOLDS`-fold cross-validation; of one that is asked for, its figures alone.

    Raises `TrainingError` for fewer than two documents, and the errors of `calibrate` where no way can be judged.
    """
    if len(documents) < 2:
        raise TrainingError("one document cannot be judged by another; give more, or say what is learned with --fit")
    labels = labels_of(documents, model.labels.names)
    ways = WAYS if settings.fit == "auto" else tuple(dict.fromkeys((AS_IMPORTED, settings.fit)))
    losses: dict[Fit, float] = {}

    def attempt(way: Fit) -> Counts:
        counts, losses[way] = _judged(documents, model, settings.model_copy(update={"fit": way}), labels)
        return counts

    search = SettingsSearch(attempt, f1_of_counts, preference=lambda way: -losses[way], progress=progress)
    faults = list[TrainingError]()
    for way in ways:
        try:
            search.trial(way)
        except TrainingError as error:
            faults.append(error)
    if not search.trials:
        raise faults[0]
    trials = tuple(search.trials)
    best = search.best(trial.setting for trial in trials) if settings.fit == "auto" else settings.fit
    own = entity_counts(documents, labels, model.labels.names, _own_labels(documents, model))
    return FitChoice(best, trials, float(f1_of_counts(own.sum(axis=0))))


def viterbi_f1(documents: Sequence[Document], model: Model) -> float:
    """Entity F1, a fraction, of a model's best legal labels. Raises `TrainingError` for documents without gold."""
    labels = labels_of(documents, model.labels.names)
    return float(f1_of_counts(viterbi_counts(model, documents, labels).sum(axis=0)))


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
) -> tuple[Counts, float]:
    """(D, 3) counts of entities, and −log p(gold) in nats, on documents that it has not learned from."""
    losses = list[float]()

    def judge(inside: list[Document], outside: list[Document]) -> Counts:
        fitted = learned_model(inside, model, settings)
        losses.append(loss_of(outside, fitted))
        return viterbi_counts(fitted, outside, labels)

    counts = counts_by_rounds(documents, min(FOLDS, len(documents)), Validation.RANDOM, judge)
    return counts, sum(losses)


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
