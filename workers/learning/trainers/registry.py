"""Every trainer by its name: what `concord train --trainer` takes."""

from __future__ import annotations

from concord.schemas.errors import UsageError
from concord.schemas.names import unknown
from concord.schemas.settings import (
    CrfSettings,
    Hmm2Settings,
    HmmSettings,
    LbfgsSettings,
    PerceptronSettings,
    SemiCrfSettings,
    SgdSettings,
    StackedSettings,
)
from concord.schemas.trigram import TrigramSettings
from concord.workers.learning.trainers import crfsuite, hmm, hmm2, lbfgs, perceptron, semicrf, sgd, stacked, trigram
from concord.workers.learning.trainers.trainer import Trainer

DEFAULT = sgd.NAME
"""On held-out documents about as good as the others or better, at a fraction of their cost: docs/benchmarks.md."""

TRAINERS: dict[str, Trainer] = {
    crfsuite.NAME: Trainer(crfsuite.train, CrfSettings),
    lbfgs.NAME: Trainer(lbfgs.train, LbfgsSettings),
    sgd.NAME: Trainer(sgd.train, SgdSettings),
    perceptron.NAME: Trainer(perceptron.train, PerceptronSettings),
    hmm.NAME: Trainer(hmm.train, HmmSettings),
    hmm2.NAME: Trainer(hmm2.train, Hmm2Settings),
    semicrf.NAME: Trainer(semicrf.train, SemiCrfSettings),
    stacked.NAME: Trainer(stacked.train, StackedSettings),
    trigram.NAME: Trainer(trigram.train, TrigramSettings),
}


class TrainerError(UsageError):
    """A trainer that is not there."""


def trainer_named(name: str) -> Trainer:
    """An entry of `TRAINERS`. Raises `TrainerError`."""
    if name not in TRAINERS:
        raise TrainerError(unknown("trainer", name, TRAINERS))
    return TRAINERS[name]
