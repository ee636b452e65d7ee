"""Constraint-driven learning in one process, also as a trainer of sweeps: see `workers.learning.little_gold.codl`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from concord.schemas.codl import CycleSettings
from concord.schemas.document import Batch, Document
from concord.schemas.errors import TrainingError
from concord.schemas.names import unknown
from concord.schemas.run import ENGINE, RunSettings
from concord.schemas.settings import TrainerSettings
from concord.workers.constraints.constraint_file import load_constraints
from concord.workers.constraints.constraint_set import Unconstrained
from concord.workers.constraints.constraint_writer import constraints_text
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.inference.registry import EngineError
from concord.workers.labelling.labelled import Labelled, check_settings, label_batch
from concord.workers.learning.little_gold.codl import Ranked, Weights, changed, ways_of
from concord.workers.learning.little_gold.codl_learners import NAME, Learner, LearningWay, ModelParts, learner_of
from concord.workers.learning.trainers.pool import unlabelled
from concord.workers.learning.trainers.registry import DEFAULT, TRAINERS, TrainerError
from concord.workers.learning.trainers.trainer import Progress, Trainer
from concord.workers.models.folder import CONSTRAINTS_FILE, update_manifest
from concord.workers.models.loaders import load_model
from concord.workers.models.model import Model
from concord.workers.storage.files import write_whole
from concord.workers.storage.scratch import scratch_folder


class CycleOutcome(NamedTuple):
    """A model and its constraints after some cycles, and how much the pool's labels changed in the last one."""

    parts: ModelParts
    constraints: DeclaredConstraints | None
    changed: float


def learn_here(
    learner: Learner, weights: Weights | None, pool: Sequence[Document], labelling: RunSettings
) -> CycleOutcome:
    """All cycles, at most `CycleSettings.cycles`, in this process. Raises `TrainingError` as `label_here` does."""
    batch, settings = Batch.of(pool), learner.settings
    outcome, before = CycleOutcome(learner.first, None if weights is None else weights.begun(), 1.0), None
    # With a share of 1 nothing that is learned of the pool is in the mixture.
    for _ in range(settings.cycles if settings.gamma < 1.0 else 0):
        ways = _ways(label_here(learner, outcome, batch, labelling), settings)
        best = ways[0].labels
        weighed = None if weights is None else weights.learned(best, batch, learner.labels)
        outcome = CycleOutcome(learner.learned(ways), weighed, 1.0 if before is None else changed(before, best))
        if outcome.changed < settings.change:
            break
        before = best
    return outcome


def label_here(learner: Learner, cycle: CycleOutcome, batch: Batch, labelling: RunSettings) -> Labelled:
    """The answers to a batch. Raises `TrainingError` where a document has none."""
    with scratch_folder() as folder:
        model = learner.save(cycle.parts, folder / "model")
        answers = label_batch(batch, model=model, constraints=cycle.constraints or Unconstrained(), settings=labelling)
    for place, reason in answers.refused.items():
        raise TrainingError(f"document {batch.doc_ids[place]!r} cannot be labelled: {reason}")
    return answers


def _ways(labelled: Labelled, settings: CycleSettings) -> list[LearningWay]:
    """All labellings that count; a document without ranks has the one."""
    ranked = [Ranked(answer.labels[None], np.zeros(1)) for answer in labelled.decoded]
    for place, own in enumerate(labelled.rankings):
        if len(own.score):
            ranked[place] = Ranked(own.labels, own.score)
    return ways_of(ranked, settings.em)


class CodlTraining(CycleSettings, TrainerSettings):
    """How a sweep learns from few labels and a pool: the options of `concord codl`, and what that is given beside."""

    corpora: ClassVar[tuple[str, ...]] = ("pool",)
    files: ClassVar[tuple[str, ...]] = ("constraints",)

    pool: str | None = Field(None, description="Corpus to learn on from; its labels, if it has any, are not read.")
    constraints: Path | None = Field(None, description="YAML file of constraints that the pool should keep.")
    engine: str = Field(ENGINE, description="Engine that decodes the pool.")
    engine_options: Mapping[str, Any] = Field(default_factory=dict, description="Options of that engine.")
    n_best: int = Field(1, ge=1, description="Number of labellings of each document to learn from.")

    @property
    def labelling(self) -> RunSettings:
        """How the pool is decoded."""
        ranks = self.n_best if self.n_best > 1 else 0
        return RunSettings(engine=self.engine, options=self.engine_options, n_best=ranks)

    @model_validator(mode="after")
    def _can_label(self) -> Self:
        if self.em == "soft" and self.n_best < 2:
            raise ValueError("em=soft weighs the best labellings against each other: give n_best as well")
        try:
            check_settings(self.labelling)
        except EngineError as error:
            raise ValueError(str(error)) from None
        return self


def train_codl(
    documents: Iterable[Document], *, settings: CodlTraining, out: Path, progress: Progress | None = None
) -> Model:
    """See `workers.learning.trainers.trainer.Train`; the constraints and their learned weights are in the folder.

    Raises `CorpusError`, `ConstraintError` and `EngineError` as well.
    """
    del progress
    labelled = list(documents)
    if settings.pool is None:
        raise TrainingError("trainer codl learns on from a pool, and has none")
    pool, _ = unlabelled(settings.pool)
    learner, weights = learner_of(labelled, pool, settings), None
    if settings.constraints is not None:
        declared = load_constraints(settings.constraints).bind(learner.labels)
        weights = Weights.of(declared, Batch.of(labelled), learner.labels, settings)
    outcome = learn_here(learner, weights, pool, settings.labelling)
    kind = learner.save(outcome.parts, out).manifest.kind
    if outcome.constraints is not None:
        write_whole(out / CONSTRAINTS_FILE, constraints_text(outcome.constraints, {}).encode())
        update_manifest(out, kind=kind, files=(CONSTRAINTS_FILE,))
    return load_model(out)


CODL = Trainer(train_codl, CodlTraining, constraints=CONSTRAINTS_FILE)


def trainer_of(name: str | None) -> Trainer:
    """A trainer of sweeps: one of the registry, its default, or `codl`, which labels on its way.

    Raises `TrainerError` if there is none of that name.
    """
    trainers = {**TRAINERS, NAME: CODL}
    if (name or DEFAULT) not in trainers:
        raise TrainerError(unknown("trainer", str(name), trainers))
    return trainers[name or DEFAULT]
