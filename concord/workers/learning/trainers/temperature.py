"""Temperature T of a model's scores, learned on documents that it has not seen: it is right as often as it is sure.

    p(y) ∝ exp(score(y) / T)

T minimises −log p(gold) over all labellings that the label scheme allows: temperature scaling (Guo et al. 2017 §4.2)
of chains. No labelling changes its rank by it, so the model's best labels stay. It is judged on other documents than it
is learned by: T of every second document on the others, and the other way round. Without a gain beyond chance it stays
what it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Floats, Mask
from concord.schemas.document import Batch, Document
from concord.schemas.labels import Labels, LabelSet, Spans
from concord.schemas.potentials import Potentials
from concord.schemas.problem import Problem
from concord.workers.constraints.constraint_set import Unconstrained
from concord.workers.evaluation.bootstrap import drawn_sums
from concord.workers.evaluation.surety import Surety, surety
from concord.workers.inference.core.chain import log_partition, viterbi
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.recursion import sentence_bounds
from concord.workers.inference.core.span_marginals import span_marginals
from concord.workers.learning.search.climbing import SettingsPoint, climb
from concord.workers.learning.trainers.trainer import gold_of
from concord.workers.models.model import BringsRows, HasTemperature, Model, costing, local_scores, temperature_of

TEMPERATURES = tuple(float(f"{2.0 ** (step / 4):.4g}") for step in range(-16, 25))
"""Temperatures tried, as multiples of the present one: steps of a fifth, within which the loss hardly changes."""
LEAST_ERRORS = 10
"""Number of wrong and missed entities below which none under 1 is learned: where all is right, surer is always better.
"""
LEAST_HELD_OUT = 10
"""Number of documents below which none is learned: five would judge what five have said."""


class TemperatureFit(NamedTuple):
    """A temperature, and what it was judged by.

    - ``temperature``: the temperature, which is the model's own where ``kept_for`` says why.
    - ``documents``: number of documents that it was learned from.
    - ``before``, ``after``: figures of the entities in the model's best labels, at the model's own temperature, and at
      one that was learned from every second document on the others; None where none is.
    """

    temperature: float
    documents: int
    before: Surety | None = None
    after: Surety | None = None
    kept_for: str = ""


def fit_temperature(documents: Sequence[Document], model: Model) -> TemperatureFit:
    """The temperature of a model by documents with gold labels that it has not seen.

    Raises `LabelError` for gold labels that the model does not have.
    """
    present = temperature_of(model)
    if isinstance(model, BringsRows) or not isinstance(model, HasTemperature):
        return TemperatureFit(present, 0, kept_for="the scores are no potentials of a chain")
    fit = fit_to(GoldScores.of(documents, costing(model, 0.0)))
    return fit._replace(temperature=float(f"{present * fit.temperature:.4g}"))


def fit_to(chains: GoldScores) -> TemperatureFit:
    """The temperature of scores, as a multiple of the present one."""
    if len(chains) < LEAST_HELD_OUT:
        return TemperatureFit(1.0, len(chains), kept_for=f"{len(chains)} held-out documents are too few to learn one")
    even, ones = np.arange(len(chains)) % 2 == 0, np.ones(len(chains))
    others = (best_temperature(chains, ~even), best_temperature(chains, even))
    before, gains = chains.surety(ones), chains.losses(1.0) - np.where(even, *map(chains.losses, others))
    if np.quantile(drawn_sums(gains, np.random.default_rng(0), draws=1000), 0.025) <= 0.0:
        why = "no other is better beyond chance"
        return TemperatureFit(1.0, len(chains), before, kept_for=why)
    return TemperatureFit(best_temperature(chains), len(chains), before, chains.surety(np.where(even, *others)))


def best_temperature(chains: GoldScores, those: Mask | None = None) -> float:
    """The temperature of the least loss on all documents, or on ``those`` (D,)."""
    chosen = np.ones(len(chains), np.bool_) if those is None else those

    def worth(point: SettingsPoint) -> tuple[float]:
        return (-float(chains.losses(point[0])[chosen].sum()),)

    least = 0.0 if chains.errors >= LEAST_ERRORS else 1.0
    return climb((1.0,), [one for one in TEMPERATURES if one >= least], worth)[0]


@dataclass(frozen=True)
class GoldScores:
    """D documents' scores and gold labels.

    - ``potentials``: of each document, with the legality of ``labels``.
    - ``gold``: labels (n,) of each document.
    """

    labels: LabelSet
    potentials: Sequence[Potentials]
    gold: Sequence[Labels]

    @classmethod
    def of(cls, documents: Sequence[Document], model: Model) -> GoldScores:
        """Those of documents with gold labels, but for documents without tokens, by a model at its temperature."""
        whole = [document for document in documents if len(document)]
        if not whole:
            return cls(model.labels, (), ())
        batch = Batch.of(whole)
        problems = local_scores(model, batch).problems(batch, model.labels, Unconstrained())
        potentials = [problem.potentials for problem in problems]
        return cls(model.labels, potentials, [model.labels.encode(gold_of(document)) for document in whole])

    def __len__(self) -> int:
        return len(self.gold)

    def losses(self, temperature: float) -> Floats:
        """(D,) −log p(gold) of each document in nats, without sentences whose gold labels the scores forbid."""
        if temperature not in self._losses:
            self._losses[temperature] = np.array(
                [
                    _loss(own, scores, temperature)
                    for own, scores in zip(self.potentials, self._scores_of_gold, strict=True)
                ]
            )
        return self._losses[temperature]

    def surety(self, temperatures: Floats) -> Surety:
        """How sure the entities in the documents' best labels are, each document at its temperature (D,)."""
        found = list(map(self._sure_of, range(len(self)), temperatures.tolist()))
        return surety(*(np.concatenate(parts) for parts in zip(*found, strict=True)))

    @cached_property
    def errors(self) -> int:
        """Number of wrong and of missed entities in the documents' best labels, which are those of any temperature."""
        return sum(len(set(_listed(spans)) ^ set(_listed(gold))) for spans, gold in self._best_and_gold)

    def _sure_of(self, i: int, temperature: float) -> tuple[Floats, Mask]:
        spans, gold = self._best_and_gold[i]
        known = set(_listed(gold))
        probability = span_marginals(Prepared.of(Problem(self.potentials[i].at(temperature), self.labels)), spans)
        return probability, np.array([span in known for span in _listed(spans)], np.bool_)

    @cached_property
    def _best_and_gold(self) -> list[tuple[Spans, Spans]]:
        """Entities of each document's best labels, and of gold."""
        return [
            (self.labels.spans(viterbi(own), own.sentence_starts), self.labels.spans(gold, own.sentence_starts))
            for own, gold in zip(self.potentials, self.gold, strict=True)
        ]

    @cached_property
    def _losses(self) -> dict[float, Floats]:
        return {}

    @cached_property
    def _scores_of_gold(self) -> list[Floats]:
        """(S,) score of the gold labels of each document's sentences."""
        return [_sentence_scores(own, gold) for own, gold in zip(self.potentials, self.gold, strict=True)]


def _listed(spans: Spans) -> list[tuple[int, int, int]]:
    return list(zip(spans.start.tolist(), spans.end.tolist(), spans.type.tolist(), strict=True))


def _sentence_scores(potentials: Potentials, labels: Labels) -> Floats:
    bounds = sentence_bounds(potentials).tolist()
    return np.array([potentials.part(start, end).score(labels[start:end]) for start, end in pairwise(bounds)])


def _loss(potentials: Potentials, gold: Floats, temperature: float) -> float:
    possible = gold > -np.inf
    totals = log_partition(potentials.at(temperature))
    return float((totals[possible] - gold[possible] / temperature).sum())
