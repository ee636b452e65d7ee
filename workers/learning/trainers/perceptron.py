"""An averaged perceptron with a CRF's features: fast, and its scores are not probabilities."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from schemas.document import Document
from schemas.settings import PerceptronSettings
from workers.learning.crf.fit import Fitting
from workers.learning.crf.perceptron import run_passes
from workers.learning.trainers.trainer import Iteration, Progress
from workers.models.crf import CrfModel

NAME = "perceptron"


def train(
    documents: Iterable[Document], *, settings: PerceptronSettings, out: Path, progress: Progress | None = None
) -> CrfModel:
    """See `workers.learning.trainers.trainer.Train`. Raises `FeatureSetError` for features that are not there."""
    fitting = Fitting.of(documents, settings=settings, trainer=NAME)
    point, rng = fitting.start(out), np.random.default_rng(settings.seed)
    wrong = []
    for met in run_passes(fitting.chains, point, settings.passes, rng):
        wrong.append(met)
        if progress is not None:
            progress(Iteration(len(wrong), settings.passes))
    return fitting.save(out, point, iterations=len(wrong), wrong=wrong[-1])
