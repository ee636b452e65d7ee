"""Registry of trainers by name: the values of `concord train --trainer`."""

from __future__ import annotations

from typing import Any

from concord.schemas.errors import UsageError
from concord.schemas.names import unknown
from concord.schemas.settings import TrainerSettings
from concord.workers.learning.trainers import (
    candidates,
    crfsuite,
    ensemble,
    hmm,
    lbfgs,
    perceptron,
    semicrf,
    sgd,
    taggers,
)
from concord.workers.learning.trainers.beside_encoder import beside_encoder
from concord.workers.learning.trainers.trainer import Trainer
from concord.workers.models.folder import CONSTRAINTS_FILE
from concord.workers.models.settings import (
    CandidatesSettings,
    CrfSettings,
    EnsembleSettings,
    HmmSettings,
    LbfgsSettings,
    PerceptronSettings,
    SemiCrfSettings,
    SgdSettings,
    TaggersSettings,
)
from concord.workers.parts import Group, Registry, a_class, an_entry

DEFAULT = sgd.NAME
"""Trainer used where none is named: about as good as the others or better, at a fraction of their cost.

benchmarks/results/models.md has the figures on held-out documents.
"""

OWN: dict[str, Trainer] = {
    crfsuite.NAME: Trainer(crfsuite.train, CrfSettings),
    lbfgs.NAME: Trainer(beside_encoder(lbfgs.train), LbfgsSettings),
    sgd.NAME: Trainer(beside_encoder(sgd.train), SgdSettings, remarks=sgd.remarks),
    perceptron.NAME: Trainer(perceptron.train, PerceptronSettings, constraints=CONSTRAINTS_FILE),
    ensemble.NAME: Trainer(beside_encoder(ensemble.train), EnsembleSettings, remarks=ensemble.remarks),
    hmm.NAME: Trainer(hmm.train, HmmSettings),
    semicrf.NAME: Trainer(semicrf.train, SemiCrfSettings, remarks=semicrf.remarks),
    taggers.NAME: Trainer(taggers.train, TaggersSettings, gold=False),
    candidates.NAME: Trainer(
        candidates.train, CandidatesSettings, gold=False, gold_if_any=True, remarks=candidates.remarks
    ),
}
"""Concord's own trainers, but for those of `workers.papers`; a new one is one file, one settings class and one line
here."""


def _wrong(part: Any) -> str | None:
    """Reason why a part is not a valid trainer; None if it is."""
    problem = an_entry(Trainer, TrainerSettings)(part)
    if problem is not None or part.sampling is None:
        return problem
    return a_class(part.sampling.settings)(part.settings)


TRAINERS: Registry[Trainer] = Registry(Group.TRAINERS, OWN, _wrong)


class TrainerError(UsageError):
    """There is no trainer of that name."""


def trainer_named(name: str) -> Trainer:
    """The trainer of that name. Raises `TrainerError` if there is none."""
    if name not in TRAINERS:
        raise TrainerError(unknown("trainer", name, TRAINERS))
    return TRAINERS[name]
