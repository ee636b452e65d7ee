"""Weighing of a cell's constraints on the documents that its model learns from: counted, tuned or learned.

Weights are those of `concord constraints weigh` on the same documents. Tuned ones are the counts of all documents times
factors, which are chosen on a share of the documents by counts, and a model, of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

from concord.schemas.document import Batch, Document
from concord.schemas.labels import LabelSet
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.declared_weights import with_weights
from concord.workers.learning.trainers.trainer import Train, gold_of
from concord.workers.learning.weights.learned_weights import learn_weights
from concord.workers.learning.weights.penalties import PENALTIES, WEIGHT_DECIMALS, By, LearnedSettings, TunedSettings
from concord.workers.learning.weights.row_counts import count_rows
from concord.workers.learning.weights.tuned_weights import families, tune_weights
from concord.workers.learning.weights.unseen import Unseen
from concord.workers.models.loaders import load_model
from concord.workers.storage.scratch import scratch_folder
from concord.workers.sweeps.codl import trainer_of
from concord.workers.sweeps.sweep_file import Weighing
from concord.workers.sweeps.training import TrainingJob, TrainingPart, parted, sample_of


class ToWeigh(NamedTuple):
    """Constraints to weigh.

    - ``key``: hexadecimal digits that name the content of the weights
    - ``part``: documents to weigh on
    - ``model``: folder of the model
    - ``training``: how the model is trained; None for a folder that is there
    - ``declared``: the constraints
    - ``known_only``: leave out constraints that name a label which the model has not learned?
    """

    key: str
    name: str
    part: TrainingPart
    model: Path
    training: TrainingJob | None
    declared: DeclaredConstraints
    known_only: bool
    weighing: Weighing


def weighed(job: ToWeigh) -> DeclaredConstraints:
    """The constraints with their weights; those whose weight is 0 are left out.

    Raises `CorpusError`, `TrainingError`, `ConstraintError`, and `LabelError` for documents with labels that a model of
    some of them lacks.
    """
    documents = sample_of(job.part)
    known_labels = load_model(job.model).labels
    declared = (job.declared.fitting(known_labels) if job.known_only else job.declared).bind(known_labels)
    labels = LabelSet.infer({*known_labels.names, *(label for document in documents for label in gold_of(document))})
    gold = _GoldWeights(job, declared, documents, labels)
    ways = {By.COUNTS: gold.from_counts, By.FACTORS: gold.from_factors, By.ERRORS: gold.from_errors}
    weights = {name: round(nats, WEIGHT_DECIMALS) for name, nats in ways[PENALTIES[job.weighing.penalty].by]().items()}
    weighted = with_weights(declared, weights)
    return weighted.only(name for name in weighted.titles if weights.get(name) != 0.0)


@dataclass(frozen=True, eq=False)
class _GoldWeights:
    """Constraints, documents to weigh them on, and all labels of these and of the model."""

    job: ToWeigh
    declared: DeclaredConstraints
    documents: Sequence[Document]
    labels: LabelSet

    def from_counts(self) -> Mapping[str, float]:
        """Weights by name, in nats, as counted on all documents."""
        return self._counts(self.documents)

    def from_factors(self) -> Mapping[str, float]:
        """Counted weights times the factors that are best on a share of the documents."""
        inside, outside = parted(self.documents)
        weights, settings = with_weights(self.declared, self._counts(inside)), self.job.weighing.settings
        with scratch_folder() as folder:
            model = self._train(inside, settings=self._model.settings, out=folder / "model")
            bound = weights.bind(model.labels)
            factors = tune_weights(Batch.of(outside), model, bound, cast("TunedSettings", settings)).factors
        family = families(self.declared)
        return {name: factors.get(family[name], 1.0) * nats for name, nats in self.from_counts().items()}

    def from_errors(self) -> Mapping[str, float]:
        """Weights of rows, learned from the errors of models on documents that they have not seen."""
        settings = cast("LearnedSettings", self.job.weighing.settings)
        unseen = Unseen.of(self.documents, self._train, self._model.settings, settings.folds)
        return learn_weights(unseen, self.declared.bind(unseen.labels), settings).weights

    def _counts(self, documents: Sequence[Document]) -> dict[str, float]:
        penalty, settings = PENALTIES[self.job.weighing.penalty], self.job.weighing.settings
        counts = count_rows(self.declared, [Batch.of(documents)], self.labels)
        return {name: tally.weight(penalty, settings) for name, tally in counts.items()}

    @property
    def _model(self) -> TrainingJob:
        assert self.job.training is not None
        return self.job.training

    @property
    def _train(self) -> Train:
        return trainer_of(self._model.trainer).train
