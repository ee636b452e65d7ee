"""The temperature T and the transitions A of a tagger's scores s, learned on documents that the tagger has not seen.

Both at once are those under which the gold labels y of the chain are likeliest, of all that the label scheme allows:

    −log p(y | s) + c2 · Σ A²,    p(y | s) ∝ exp(Σ_t s_t(y_t) / T + Σ_t A(y_t−1, y_t)),

which has one minimum in 1/T and A (Lafferty et al. 2001, with one feature more). For tokens by themselves the first
alone would be temperature scaling (Guo et al. 2017 §4.2); here T is what it should be beside the transitions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from concord.schemas.arrays import Floats
from concord.schemas.document import Batch, Document
from concord.schemas.errors import TrainingError
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.potentials import Potentials
from concord.workers.features.incidence import Lists
from concord.workers.learning.estimation.chains import GoldChains
from concord.workers.learning.estimation.lbfgs import Limits, minimise
from concord.workers.learning.estimation.objective import ChainRoom, add_sentences
from concord.workers.models.scores import MissingScoresError, ScoresModel, joined, label_ids
from concord.workers.models.settings import CalibrationSettings, ScoresSettings

LIMITS = Limits(500, gradient=1e-7, decrease=1e-10)


class Calibrated(NamedTuple):
    """What was learned, on so many sentences of so many tokens; ``left_out`` others have labels without a chance.

    ``before`` and ``after`` are −log p(gold) a token, in nats.
    """

    source: ScoresSettings
    transition: Floats
    sentences: int
    tokens: int
    left_out: int
    before: float
    after: float


def calibrate(documents: Sequence[Document], model: ScoresModel, settings: CalibrationSettings) -> Calibrated:
    """Temperature and transitions on documents with gold labels and scores.

    Raises `TrainingError` where there is nothing to learn from or the scores say nothing of the labels,
    `MissingScoresError`, and `LabelError` for gold labels that the model does not have.
    """
    chains = _Chains.of(documents, model)
    start = np.append(1.0 / model.source.temperature, model.transition.ravel())
    free = np.full(len(start), settings.transitions == "learned")
    free[0] = settings.temperature == "learned"
    prior = np.full(len(start), settings.c2)
    prior[0] = 0.0

    def objective(point: Floats) -> tuple[float, Floats]:
        loss, gradient = chains.loss(point)
        return loss + float(prior @ point**2), np.where(free, gradient + 2.0 * prior * point, 0.0)

    first = chains.loss(start)[0]
    if not math.isfinite(first):
        raise TrainingError(
            "the gold labels have no chance under the scores as they are; give the model another temperature"
        )
    point = start
    for step in minimise(objective, start, LIMITS):
        point = step.point
    source = model.source if settings.temperature == "kept" else _at(model.source, float(1.0 / point[0]))
    tokens = len(chains.gold)
    return Calibrated(
        source,
        point[1:].reshape(model.transition.shape),
        len(chains.bounds) - 1,
        tokens,
        chains.left_out,
        first / tokens,
        chains.loss(point)[0] / tokens,
    )


def _at(source: ScoresSettings, temperature: float) -> ScoresSettings:
    try:
        return ScoresSettings.model_validate(source.model_dump() | {"temperature": temperature})
    except ValidationError as error:
        raise TrainingError(
            f"the best temperature would be {temperature:g}: the scores say nothing of the gold labels, or say them "
            "outright; look at the order of the labels"
        ) from error


@dataclass(frozen=True, eq=False)
class _Chains:
    """Sentences ``bounds`` (S + 1,) with scores (N, W), of the labels ``ids`` (W,), and gold labels (N,)."""

    labels: LabelSet
    scores: Floats
    ids: Labels
    gold: Labels
    bounds: NDArray[np.int64]
    left_out: int

    @classmethod
    def of(cls, documents: Sequence[Document], model: ScoresModel) -> _Chains:
        """The sentences whose gold labels are possible."""
        batch = Batch.of(documents)
        if batch.labels is None or not batch.token_count:
            raise TrainingError("there are no labelled documents to learn from")
        if batch.scores is None:
            raise MissingScoresError(f"the documents were read without the scores of column {model.source.column!r}")
        gold = model.labels.encode(list(batch.labels.values))[batch.labels.codes]
        legal = model.potentials(batch).legal(model.labels)
        possible = _possible(legal, gold)
        lengths = np.diff(batch.sentence_bounds)
        if not possible.any():
            raise TrainingError("the scores forbid the gold labels of every sentence")
        kept = np.repeat(possible, lengths)
        bounds = np.concatenate([[0], np.cumsum(lengths[possible])]).astype(np.int64)
        ids = label_ids(model.source.labels, model.labels)
        return cls(model.labels, batch.scores[kept], ids, gold[kept], bounds, int((~possible).sum()))

    def loss(self, point: Floats) -> tuple[float, Floats]:
        """−log p(gold) in nats where 1/T and the transitions are ``point`` (1 + L · L,), and its gradient."""
        size = len(self.labels)
        # A share that is not above 0 is no temperature, but the way to the minimum may lead there.
        scaled = np.where(self.scores > -np.inf, point[0] * self._finite, -np.inf)
        table = joined(scaled, self.ids, size)
        potentials = Potentials(table, point[1:].reshape(size, size), self.bounds[:-1]).legal(self.labels)
        rows, expected, pairs = potentials.unary, np.zeros_like(table), np.zeros((size, size))
        alone = np.arange(len(rows) + 1), np.arange(len(rows), dtype=np.int32)
        scores = Lists(*alone), rows, potentials.transition, np.exp(potentials.transition)
        room = ChainRoom.of(self.bounds, size)
        loss = float(add_sentences(*scores, GoldChains(self.bounds, self.gold, size), expected, pairs, room))
        return loss, np.append(np.sum(expected * self._slope(scaled, table)), pairs.ravel())

    def _slope(self, scaled: Floats, table: Floats) -> Floats:
        """(N, L) how fast each local score grows with 1/T."""
        slope = np.zeros_like(table)
        for place, label in enumerate(self.ids.tolist()):
            possible = self.scores[:, place] > -np.inf
            share = np.exp(scaled[possible, place] - table[possible, label])
            slope[possible, label] += share * self.scores[possible, place]
        return slope

    @cached_property
    def _finite(self) -> Floats:
        return np.where(self.scores > -np.inf, self.scores, 0.0)


def _possible(potentials: Potentials, gold: Labels) -> NDArray[np.bool_]:
    """(S,) which sentences have gold labels that the potentials allow."""
    starts = potentials.sentence_starts
    allowed = potentials.unary[np.arange(len(gold)), gold] > -np.inf
    follows = np.ones(len(gold), np.bool_)
    follows[1:] = potentials.transition[gold[:-1], gold[1:]] > -np.inf
    follows[starts] = True
    return np.logical_and.reduceat(allowed & follows, starts)
