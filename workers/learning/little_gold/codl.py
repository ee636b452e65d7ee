"""Constraint-driven learning: a model labels a pool under constraints, and learns from that (Chang et al. 2008 alg. 2).

With (w₀, ρ₀) the model and penalties of labelled documents, each cycle labels the pool with (w, ρ) and sets

    (w, ρ) ← (1 − γ) · learn(pool as labelled) + γ · (w₀, ρ₀).

`workers.learning.little_gold.codl_learners` has the models. Weights of a hidden Markov model are log probabilities:
mixing these, as line 8 prints it, leaves what adds up to less than 1, and mixing probabilities is what keeps it a
model. Of K best labellings each counts a K-th, or by its probability among them. Without constraints this is hard EM
with mixed models (`workers.learning.estimation.expectation`), their column of semi-supervised learning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from concord.schemas.arrays import Floats
from concord.schemas.codl import CodlSettings
from concord.schemas.document import Batch, Column
from concord.schemas.labels import Labels, LabelSet
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.declared_weights import with_weights
from concord.workers.learning.little_gold.codl_learners import LearningWay
from concord.workers.learning.weights.penalties import PENALTIES, OddsSettings
from concord.workers.learning.weights.row_counts import count_rows


class Ranked(NamedTuple):
    """The best labellings (K, N) of a document, and their scores (K,) in nats."""

    labels: Labels
    score: Floats


def ways_of(ranked: Sequence[Ranked], em: str) -> list[LearningWay]:
    """The documents' labellings as labellings of them all, the best first.

    A document with fewer than others has its best one count for those that it lacks, or, in soft EM, nothing.
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
    found: Floats = np.pad(softmax(score), (0, size - len(score)))
    return found


SHARE = {"hard": _alike, "soft": _by_probability}
"""What each of the best labellings of a document counts for, by their scores, and how many others have."""


@dataclass(frozen=True)
class Weights:
    """Penalties of declared constraints, in nats, that go the way of the model."""

    constraints: DeclaredConstraints
    first: Mapping[str, float]
    settings: CodlSettings

    @classmethod
    def of(cls, constraints: DeclaredConstraints, gold: Batch, labels: LabelSet, settings: CodlSettings) -> Weights:
        """Those that labelled documents say, and only they where these are not `learned`."""
        if settings.penalties == "hard":
            return cls(constraints, dict.fromkeys(constraints.titles, math.inf), settings)
        return cls(constraints, counted_weights(constraints, gold, labels, settings), settings)

    def begun(self) -> DeclaredConstraints:
        """The constraints as labelled documents weigh them."""
        return with_weights(self.constraints, self.first)

    def learned(self, best: Labels, pool: Batch, labels: LabelSet) -> DeclaredConstraints:
        """The constraints as the mixture weighs them; ``best`` (N,) are the labels that the pool was given."""
        if self.settings.penalties != "learned":
            return self.begun()
        labelled = replace(pool, labels=Column(best.astype(np.int32), labels.names))
        gamma, new = self.settings.gamma, counted_weights(self.constraints, labelled, labels, self.settings)
        return with_weights(
            self.constraints, {name: gamma * nats + (1.0 - gamma) * new[name] for name, nats in self.first.items()}
        )


def counted_weights(
    constraints: DeclaredConstraints, labelled: Batch, labels: LabelSet, settings: CodlSettings
) -> dict[str, float]:
    """The log odds of every constraint, by name, see `workers.learning.weights.penalties`."""
    counts = count_rows(constraints, [labelled], labels)
    odds, chosen = PENALTIES["odds"], OddsSettings(held=settings.held)
    return {name: found.weight(odds, chosen) for name, found in counts.items()}


def changed(before: Labels, after: Labels) -> float:
    """The share of tokens with another label; of two labellings of the same tokens."""
    return float((before != after).mean()) if len(after) else 0.0
