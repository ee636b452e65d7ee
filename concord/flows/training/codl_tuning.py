"""Choice of the share γ of the first model by cross-validation over the labelled documents, with progress shown.

For each fold and each γ, a model is learned from the other folds (or the earlier ones, see `Validation`) and a sample
of the pool; then it labels the fold. All of this happens in this process, and costs folds · shares · cycles labellings
of the sample. The share with the most right tokens is chosen; among equal ones the largest, which trusts the pool
least.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from concord.flows.screen.progress import meter
from concord.schemas.codl import CodlSettings, GammaTrial
from concord.schemas.document import Batch, Document
from concord.schemas.errors import TrainingError
from concord.schemas.run import RunSettings
from concord.schemas.settings import Validation
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.evaluation.figures import recall
from concord.workers.evaluation.named_counts import Counts
from concord.workers.learning.little_gold.codl import Weights
from concord.workers.learning.little_gold.codl_learners import Learner, learner_of
from concord.workers.learning.search.folds import place_of, rounds
from concord.workers.learning.search.trials import Trial
from concord.workers.learning.trainers.trainer import gold_of
from concord.workers.sweeps.codl import label_here, learn_here


def choose_gamma(
    documents: Sequence[Document],
    pool: Sequence[Document],
    constraints: DeclaredConstraints | None,
    settings: CodlSettings,
    labelling: RunSettings,
    validation: Validation = Validation.RANDOM,
) -> tuple[GammaTrial, ...]:
    """One trial for each share. Raises `TrainingError` for fewer than two labelled documents."""
    if len(documents) < 2:
        raise TrainingError("one labelled document cannot be held out to choose gamma; give more, or gamma itself")
    goes = list(rounds(documents, min(settings.folds, len(documents)), validation))
    sample = sorted(pool, key=lambda document: place_of(document.doc_id))[: settings.sample]
    names = {name for document in documents for name in gold_of(document)}
    settings = settings.model_copy(update={"labels": tuple(sorted(names.union(settings.labels)))})
    counts = {gamma: np.zeros((len(documents), 1, 3), np.int64) for gamma in settings.shares}
    with meter("choosing gamma", len(goes) * len(counts)) as bar:
        for go in goes:
            inside, outside = ([documents[i] for i in part] for part in go)
            learner = learner_of(inside, sample, settings)
            weights = None
            if constraints is not None:
                weights = Weights.of(constraints, Batch.of(inside), learner.labels, settings)
            for gamma, found in counts.items():
                own = replace(learner, settings=settings.model_copy(update={"gamma": gamma}))
                found[go.judged] = _right(own, weights, sample, outside, labelling)
                bar.advance(note=f"gamma {gamma:g}")
    judged = sorted(i for go in goes for i in go.judged)
    trials = [Trial(gamma, found[judged], recall) for gamma, found in counts.items()]
    careful = max(trials, key=lambda trial: trial.setting)
    return tuple(_row(trial, careful) for trial in trials)


def best_gamma(trials: Sequence[GammaTrial]) -> float:
    """The share with the most right tokens; among equal ones the largest."""
    return max(trials, key=lambda trial: (trial.accuracy, trial.gamma)).gamma


def _right(
    learner: Learner,
    weights: Weights | None,
    pool: Sequence[Document],
    outside: Sequence[Document],
    labelling: RunSettings,
) -> Counts:
    """(D, 1, 3) numbers of tokens of the documents that were not learned from: in gold, labelled, and right."""
    found = learn_here(learner, weights, pool, labelling)
    decoded = label_here(learner, found, Batch.of(outside), labelling).decoded
    gold = [learner.labels.encode(gold_of(document)) for document in outside]
    right = [(answer.labels == own).sum() for answer, own in zip(decoded, gold, strict=True)]
    return np.array([[[len(own), len(own), hits]] for own, hits in zip(gold, right, strict=True)], np.int64)


def _row(trial: Trial[float], careful: Trial[float]) -> GammaTrial:
    gain = trial.gain(careful)
    return GammaTrial.from_results(gain, gain=gain.difference, gamma=trial.setting, accuracy=trial.value)
