"""Local scores by a second path that shares no kernel with the first, and the parts of a model that have to be trusted.

The first path is `workers.models.model.local_scores`. The two share the files of a model, the definitions of its
features (`workers.features.extractors`, `derived`, `mentions`, `gazetteers`), which are plain Python, and numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from concord.schemas.document import Batch
from concord.schemas.potentials import Potentials
from concord.workers.models.crf import CrfModel
from concord.workers.models.crfsuite import CrfsuiteModel
from concord.workers.models.hmm import HmmModel
from concord.workers.models.model import LocalScores, Model, at_settings_of, local_scores
from concord.workers.models.scores import ScoresModel
from concord.workers.verification.plain_crf import plain_potentials

EVERYTHING = (
    "the files of corpus, model and constraints",
    "Python, numpy and Arrow",
    "how documents are read",
    "what features and constraints mean, their definitions run by Python",
)
"""Parts that every verification trusts."""

NO_TABLES = "each sentence by itself"
"""Reason for a `CrfsuiteModel` to score without word tables."""


class SecondPath(NamedTuple):
    """A second way to the scores of a model.

    - ``scores``: function that scores a batch as the model does.
    - ``trusted``: the model's own parts that are trusted; none for most models.
    """

    scores: Callable[[Batch], LocalScores]
    trusted: tuple[str, ...] = ()


def second_path(model: Model) -> SecondPath:
    """The second path of a model; if there is none, its own code, which is then trusted."""
    settings = partial(at_settings_of, model)
    if isinstance(model, CrfModel):
        return _of_potentials(plain_potentials(model), settings)
    if isinstance(model, CrfsuiteModel):
        plain = replace(model, functions=model.functions.model_copy(update={"departure": NO_TABLES}))
        return _of_potentials(plain.potentials, settings, f"the features of {model.functions.features.name}")
    if isinstance(model, ScoresModel):
        return _of_potentials(model.potentials, settings, "the scores in the corpus")
    if isinstance(model, HmmModel):
        return _of_potentials(model.potentials, settings)  # numpy alone
    name = type(model).__name__
    return SecondPath(lambda batch: local_scores(model, batch), (f"the scores that {name} computes, compiled",))


def _of_potentials(
    potentials: Callable[[Batch], Potentials], settings: Callable[[LocalScores], LocalScores], *trusted: str
) -> SecondPath:
    return SecondPath(lambda batch: settings(LocalScores(potentials(batch))), trusted)
