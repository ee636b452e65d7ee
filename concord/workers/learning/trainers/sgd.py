"""A linear-chain CRF by stochastic gradient descent with dropout; more passes over small corpora."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from concord.schemas.blocks import Remark
from concord.schemas.document import Document
from concord.workers.learning.estimation.objective import Objective
from concord.workers.learning.estimation.sgd import Rates, run_passes
from concord.workers.learning.trainers.fit import Fitting
from concord.workers.learning.trainers.trainer import Iteration, Progress
from concord.workers.models.crf import CrfModel
from concord.workers.models.settings import SgdSettings

NAME = "sgd"


def train(
    documents: Iterable[Document], *, settings: SgdSettings, out: Path, progress: Progress | None = None
) -> CrfModel:
    """See `workers.learning.trainers.trainer.Train`. Raises `FeatureSetError` for features that are not there."""
    fitting = Fitting.of(documents, settings=settings, trainer=NAME)
    point = fitting.start(out)
    rates = Rates.of(settings, len(fitting.chains.gold.labels))
    rng = np.random.default_rng(settings.seed)
    passes = run_passes(fitting.chains, settings.c2, point, rates, rng, fitting.vectors)
    for number, loss in enumerate(passes, 1):
        if progress is not None:
            progress(Iteration(number, rates.passes, loss))
    loss = Objective(fitting.chains, settings.c2, beside=fitting.vectors)(point)[0]
    return fitting.save(out, point, iterations=rates.passes, loss=loss, dropout=rates.dropout)


def remarks(figures: Mapping[str, float]) -> Iterator[Remark]:
    """How often the corpus was gone through, and what was learned from a pool.

    Nothing of a model that gives a layer's answers as they are.
    """
    if "dropout" in figures:
        corpus = f"{figures['iterations']:,.0f} passes over {figures['tokens']:,.0f} tokens"
        yield Remark(f"{NAME}: {corpus}, dropout {figures['dropout']:g}")
