"""An averaged perceptron with a CRF's features, by itself or under constraints: fast, but without probabilities."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from concord.schemas.document import Batch, Document
from concord.workers.constraints.constraint_file import load_constraints
from concord.workers.constraints.constraint_writer import constraints_text
from concord.workers.constraints.declared_weights import row_weights, with_weights
from concord.workers.inference.registry import Decoder
from concord.workers.learning.estimation.constrained import ConstrainedPerceptron, Point, grounded
from concord.workers.learning.estimation.perceptron import run_passes
from concord.workers.learning.trainers.fit import Fitting
from concord.workers.learning.trainers.trainer import Iteration, Progress
from concord.workers.models.crf import CrfModel
from concord.workers.models.folder import CONSTRAINTS_FILE
from concord.workers.models.settings import PerceptronSettings
from concord.workers.storage.files import write_whole

NAME = "perceptron"


def train(
    documents: Iterable[Document], *, settings: PerceptronSettings, out: Path, progress: Progress | None = None
) -> CrfModel:
    """See `workers.learning.trainers.trainer.Train`. Raises `FeatureSetError` for features that are not there.

    Under constraints it raises `ConstraintError` and `EngineError` as well.
    """
    given = list(documents)
    fitting = Fitting.of(given, settings=settings, trainer=NAME)
    if settings.constraints is not None:
        return _train_under(settings.constraints, given, fitting, settings, out, progress)
    point, rng = fitting.start(out), np.random.default_rng(settings.seed)
    wrong = []
    for met in run_passes(fitting.chains, point, settings.passes, rng):
        wrong.append(met)
        if progress is not None:
            progress(Iteration(len(wrong), settings.passes))
    return fitting.save(out, point, iterations=len(wrong), wrong=wrong[-1])


def _train_under(
    file: str,
    documents: list[Document],
    fitting: Fitting,
    settings: PerceptronSettings,
    out: Path,
    progress: Progress | None,
) -> CrfModel:
    """Trains under the constraints of a file, which is saved in the model's folder with the learned weights."""
    declared = load_constraints(file)
    known = declared.fitting(fitting.labels) if settings.known_labels_only else declared
    constraints = known.bind(fitting.labels)
    soft = {name for name, weight in row_weights(constraints) if math.isfinite(weight)}
    learned = np.array([settings.learn == "wcibt" and name in soft for name in constraints.names], np.bool_)
    learner = ConstrainedPerceptron(
        fitting.chains,
        fitting.labels,
        fitting.order,
        grounded(Batch.of(documents), constraints, fitting.labels),
        learned,
        Decoder.of(settings.engine, seed=settings.seed),
        settings.relaxed_weight,
    )
    weights, rng = fitting.start(out), np.random.default_rng(settings.seed)
    point = Point(*fitting.chains.parts(weights), np.zeros(len(learned)))
    met = []
    for done in learner.run(point, settings.passes, rng):
        met.append(done)
        if progress is not None:
            progress(Iteration(len(met), settings.passes))
    penalties = {n: p for n, p, own in zip(constraints.names, point.penalty.tolist(), learned, strict=True) if own}
    write_whole(out / CONSTRAINTS_FILE, constraints_text(with_weights(constraints, penalties), {}).encode())
    return fitting.save(
        out,
        weights,
        beside=(CONSTRAINTS_FILE,),
        iterations=len(met),
        wrong=met[-1].wrong,
        relaxed_documents=met[-1].relaxed,
    )
