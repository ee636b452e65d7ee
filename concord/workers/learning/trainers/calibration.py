"""Calibration of a tagger's scores s: a temperature T and transitions A, learned on documents it has not seen.

T and A together minimise the loss of the gold labels y, over all labellings that the label scheme allows:

    −log p(y | s) + c2 · Σ A²,    p(y | s) ∝ exp(Σ_t s_t(y_t) / T + Σ_t A(y_t−1, y_t)).

It has one minimum in 1/T and A (Lafferty et al. 2001, with one feature more). Without transitions this would be
temperature scaling (Guo et al. 2017 §4.2); here T is the best temperature beside the transitions. It does not fall
where the tagger errs nearly nowhere: every lower one would be better there.
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
from concord.workers.learning.estimation.chains import Edges, GoldChains
from concord.workers.learning.estimation.lbfgs import Limits, minimise
from concord.workers.learning.estimation.objective import ChainRoom, Messages, add_sentences
from concord.workers.learning.trainers.temperature import LEAST_ERRORS, GoldScores
from concord.workers.models.scores import MissingScoresError, ScoresModel, columns_of, joined, label_ids
from concord.workers.models.settings import CalibrationSettings, ScoresSettings

LIMITS = Limits(500, gradient=1e-7, decrease=1e-10)


class Calibrated(NamedTuple):
    """Result of calibration.

    - ``source``: settings of the scores, with the learned temperature.
    - ``transition`` (L, L): learned transitions, in nats.
    - ``sentences``: number of sentences learned from.
    - ``tokens``: number of their tokens.
    - ``left_out``: number of other sentences, whose gold labels are impossible under the scores.
    - ``before``, ``after``: −log p(gold) per token, in nats, under the old and the new values.
    """

    source: ScoresSettings
    transition: Floats
    sentences: int
    tokens: int
    left_out: int
    before: float
    after: float


def calibrate(
    documents: Sequence[Document], model: ScoresModel, settings: CalibrationSettings, *, limits: Limits = LIMITS
) -> Calibrated:
    """Temperature and transitions learned on documents with gold labels and scores: what ``settings.fit`` names;
    'auto', a choice that `calibration_choice` makes, stands for both here.

    - ``limits``: when the descent ends.

    Raises `TrainingError` if there is nothing to learn from or no temperature fits the labels, `MissingScoresError` if
    the documents have no scores, and `LabelError` for gold labels that the model does not have.
    """
    chains = _GoldSentences.of(documents, model)
    start = np.append(1.0 / model.source.temperature, model.transition.ravel())
    free = np.full(len(start), settings.fit in ("auto", "both", "transitions"))
    free[0] = settings.fit in ("auto", "both", "temperature")
    prior = np.full(len(start), settings.c2)
    prior[0] = 0.0

    def objective(point: Floats) -> tuple[float, Floats]:
        loss, gradient = chains.loss(point)
        return loss + float(prior @ point**2), np.where(free, gradient + 2.0 * prior * point, 0.0)

    def minimum() -> Floats:
        point = start
        for step in minimise(objective, start, limits):
            point = step.point
        return point

    first = chains.loss(start)[0]
    if not math.isfinite(first):
        raise TrainingError(
            "the gold labels have no chance under the scores as they are; give the model another temperature"
        )
    point = minimum()
    if point[0] > start[0] and GoldScores.of(documents, model).errors < LEAST_ERRORS:
        free[0] = False
        point = minimum()
    source = _at(model.source, float(1.0 / point[0])) if free[0] else model.source
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


def loss_of(documents: Sequence[Document], model: ScoresModel) -> float:
    """−log p(gold) in nats of all sentences whose gold labels the scores allow. Raises as `calibrate`."""
    point = np.append(1.0 / model.source.temperature, model.transition.ravel())
    return _GoldSentences.of(documents, model).loss(point)[0]


def _at(source: ScoresSettings, temperature: float) -> ScoresSettings:
    try:
        return ScoresSettings.model_validate(source.model_dump() | {"temperature": temperature})
    except ValidationError as error:
        raise TrainingError(
            f"the best temperature would be {temperature:g}: the scores say nothing of the gold labels, or say them "
            "outright; look at the order of the labels"
        ) from error


@dataclass(frozen=True, eq=False)
class _GoldSentences:
    """S sentences of N tokens whose gold labels are possible.

    - ``scores`` (N, W): the tagger's scores.
    - ``ids`` (W,): label id of each column of the scores.
    - ``gold`` (N,): gold labels.
    - ``bounds`` (S + 1,): first token of each sentence, and N.
    - ``left_out``: number of other sentences.
    """

    labels: LabelSet
    scores: Floats
    ids: Labels
    gold: Labels
    bounds: NDArray[np.int64]
    left_out: int

    @classmethod
    def of(cls, documents: Sequence[Document], model: ScoresModel) -> _GoldSentences:
        """The sentences of documents whose gold labels are possible under the model."""
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
        ids = label_ids(model.source, model.labels)
        return cls(model.labels, batch.scores[kept], ids, gold[kept], bounds, int((~possible).sum()))

    def loss(self, point: Floats) -> tuple[float, Floats]:
        """Loss −log p(gold) in nats, and its gradient, at a point (1 + L · L,): 1/T, then the transitions."""
        size = len(self.labels)
        # 1/T ≤ 0 is no temperature, but the line search may try it.
        scaled = np.where(self.scores > -np.inf, point[0] * self._finite, -np.inf)
        table = joined(scaled, self.ids, size)
        potentials = Potentials(table, point[1:].reshape(size, size), self.bounds[:-1]).legal(self.labels)
        rows, expected, pairs = potentials.unary, np.zeros_like(table), np.zeros((size, size))
        alone = np.arange(len(rows) + 1), np.arange(len(rows), dtype=np.int32)
        scores = Lists(*alone), rows, np.zeros((0, size)), Edges.shared(potentials.transition)
        counts, room = (expected, pairs, Messages.none(size)), ChainRoom.of(self.bounds, size)
        loss = float(add_sentences(*scores, GoldChains(self.bounds, self.gold, size), *counts, room))
        return loss, np.append(np.sum(expected * self._slope(scaled, table)), pairs.ravel())

    def _slope(self, scaled: Floats, table: Floats) -> Floats:
        """(N, L) derivative of each local score with respect to 1/T."""
        slope = np.zeros_like(table)
        for place, label in columns_of(self.ids):
            possible = self.scores[:, place] > -np.inf
            share = np.exp(scaled[possible, place] - table[possible, label])
            slope[possible, label] += share * self.scores[possible, place]
        return slope

    @cached_property
    def _finite(self) -> Floats:
        return np.where(self.scores > -np.inf, self.scores, 0.0)


def _possible(potentials: Potentials, gold: Labels) -> NDArray[np.bool_]:
    """(S,) mask of the sentences whose gold labels the potentials allow."""
    starts = potentials.sentence_starts
    allowed = potentials.unary[np.arange(len(gold)), gold] > -np.inf
    follows = np.ones(len(gold), np.bool_)
    follows[1:] = potentials.transition[gold[:-1], gold[1:]] > -np.inf
    follows[starts] = True
    return np.logical_and.reduceat(allowed & follows, starts)
