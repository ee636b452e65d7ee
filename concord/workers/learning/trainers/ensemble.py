"""The average of several CRFs by stochastic gradient descent, with different seeds: one model, as fast as one of them.

Scores of a linear-chain CRF are linear in its weights, so the model of mean weights has exactly the mean scores of its
members. Members differ by the order of sentences and by the features that dropout leaves out, as in the mean of CRFs
with bags of features (Sutton, Sindelar & McCallum 2006).
"""

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
from concord.workers.models.settings import EnsembleSettings

NAME = "ensemble"


def train(
    documents: Iterable[Document], *, settings: EnsembleSettings, out: Path, progress: Progress | None = None
) -> CrfModel:
    """See `workers.learning.trainers.trainer.Train`. Raises `FeatureSetError` for features that are not there."""
    fitting = Fitting.of(documents, settings=settings, trainer=NAME)
    start = fitting.start(out)
    rates = Rates.of(settings, len(fitting.chains.gold.labels))
    total, mean = rates.passes * settings.members, np.zeros_like(start)
    for member in range(settings.members):
        point, rng = start.copy(), np.random.default_rng(settings.seed + member)
        vectors = fitting.vectors.with_no_weight()
        for number, loss in enumerate(run_passes(fitting.chains, settings.c2, point, rates, rng, vectors), 1):
            if progress is not None:
                progress(Iteration(member * rates.passes + number, total, loss))
        mean += point / settings.members
        fitting.vectors.weights[:] += vectors.weights / settings.members
    loss = Objective(fitting.chains, settings.c2, beside=fitting.vectors)(mean)[0]
    return fitting.save(out, mean, iterations=total, loss=loss, members=settings.members, dropout=rates.dropout)


def remarks(figures: Mapping[str, float]) -> Iterator[Remark]:
    """How many models there are, and how often the corpus was gone through for each."""
    if "members" in figures:
        members, tokens = figures["members"], figures["tokens"]
        corpus = f"{figures['iterations'] / members:,.0f} passes over {tokens:,.0f} tokens"
        yield Remark(f"{NAME}: the mean of {members:,.0f} models, each {corpus}, dropout {figures['dropout']:g}")
