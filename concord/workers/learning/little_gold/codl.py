"""Constraint-driven learning: a model labels a pool under constraints and learns from it (Chang et al. 2008 alg. 2).

With (w₀, ρ₀) the model and penalties of the labelled documents, each cycle labels the pool with (w, ρ) and sets

    (w, ρ) ← (1 − γ) · learn(pool as labelled) + γ · (w₀, ρ₀).

`workers.learning.little_gold.codl_learners` has the models. The weights of a hidden Markov model are log probabilities.
A mixture of these, as line 8 prints it, gives probabilities that add up to less than 1; a mixture of probabilities is
again a model. Of the K best labellings, each counts 1 / K, or as its probability among them. Without constraints this
is hard EM with mixed models (`workers.learning.estimation.expectation`), the paper's semi-supervised learning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from concord.schemas.arrays import Floats
from concord.schemas.codl import CycleSettings
from concord.schemas.document import Batch, Column
from concord.schemas.labels import Labels, LabelSet
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.declared_weights import with_weights
from concord.workers.learning.little_gold.codl_learners import LearningWay
from concord.workers.learning.weights.penalties import PENALTIES, OddsSettings
from concord.workers.learning.weights.row_counts import count_rows


class Ranked(NamedTuple):
    """The K best labellings of a document, best first.

    - ``labels`` (K, N): the labellings.
    - ``score`` (K,): their scores in nats.
    """

    labels: Labels
    score: Floats


def ways_of(ranked: Sequence[Ranked], em: str) -> list[LearningWay]:
    """Labellings of the whole pool, best first: the k-th one has the k-th best labelling of each document.

    A document with fewer labellings repeats its best one; in soft EM the repetitions count 0.
    """
    size = max(len(own.score) for own in ranked)
    ways = []
    for k in range(size):
        labels = [own.labels[k if k < len(own.score) else 0] for own in ranked]
        share = [np.full(own.labels.shape[1], SHARE[em](own.score, size)[k]) for own in ranked]
        ways.append(LearningWay(np.concatenate(labels), np.concatenate(share)))
    return ways


def _alike(score: Floats, size: int) -> Floats:
    del score
    return np.full(size, 1.0 / size)


def _by_probability(score: Floats, size: int) -> Floats:
    shares: Floats = np.pad(softmax(score), (0, size - len(score)))
    return shares


SHARE = {"hard": _alike, "soft": _by_probability}
"""Functions from the scores of a document's best labellings, and the largest number K, to the share of each."""


@dataclass(frozen=True)
class Weights:
    """Penalties of declared constraints, which are mixed in the same way as the model.

    - ``first``: nats of each constraint, by name, from the labelled documents.
    """

    constraints: DeclaredConstraints
    first: Mapping[str, float]
    settings: CycleSettings

    @classmethod
    def of(cls, constraints: DeclaredConstraints, gold: Batch, labels: LabelSet, settings: CycleSettings) -> Weights:
        """Weights counted on the labelled documents, or infinite ones if the settings say ``hard``."""
        if settings.penalties == "hard":
            return cls(constraints, dict.fromkeys(constraints.titles, math.inf), settings)
        return cls(constraints, counted_weights(constraints, gold, labels, settings), settings)

    def begun(self) -> DeclaredConstraints:
        """The constraints with the weights of the labelled documents."""
        return with_weights(self.constraints, self.first)

    def learned(self, best: Labels, pool: Batch, labels: LabelSet) -> DeclaredConstraints:
        """The constraints with mixed weights; ``best`` (N,) are the labels that the pool was given.

        Weights stay those of the labelled documents unless the settings say ``learned``.
        """
        if self.settings.penalties != "learned":
            return self.begun()
        labelled = replace(pool, labels=Column(best.astype(np.int32), labels.names))
        gamma, new = self.settings.gamma, counted_weights(self.constraints, labelled, labels, self.settings)
        return with_weights(
            self.constraints, {name: gamma * nats + (1.0 - gamma) * new[name] for name, nats in self.first.items()}
        )


def counted_weights(
    constraints: DeclaredConstraints, labelled: Batch, labels: LabelSet, settings: CycleSettings
) -> dict[str, float]:
    """Log odds of each constraint, by name, see `workers.learning.weights.penalties`."""
    counts = count_rows(constraints, [labelled], labels)
    odds, odds_settings = PENALTIES["odds"], OddsSettings(held=settings.held)
    return {name: tally.weight(odds, odds_settings) for name, tally in counts.items()}


def changed(before: Labels, after: Labels) -> float:
    """Fraction of tokens whose label differs between two labellings (N,)."""
    return float((before != after).mean()) if len(after) else 0.0
