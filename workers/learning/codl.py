"""Constraint-driven learning: a model labels a pool under constraints, and learns from that (Chang et al. 2008 alg. 2).

With (w₀, ρ₀) the model and penalties of labelled documents, each cycle labels the pool with (w, ρ) and sets

    (w, ρ) ← (1 − γ) · learn(pool as labelled) + γ · (w₀, ρ₀).

The model is a hidden Markov model, whose weights are log probabilities. Mixing these, as line 8 prints it, leaves what
adds up to less than 1; mixing probabilities is what keeps it a model, and `CodlSettings.mixing` has both. Of K best
labellings each counts a K-th. Without constraints this is hard EM with mixed models (`workers.learning.expectation`),
their column of semi-supervised learning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schemas.codl import CodlSettings
from schemas.document import TOKENS, Batch, Document
from schemas.labels import Labels, LabelSet
from schemas.potentials import Floats
from schemas.settings import HmmSettings
from workers.constraints.declared import DeclaredConstraints
from workers.learning.crf.chains import Gold
from workers.learning.hmm_counts import Counts, counted, estimated, mixed
from workers.learning.penalties import PENALTIES, OddsSettings, count_rows, with_weights
from workers.learning.trainers.hmm import Read, read_words
from workers.learning.trainers.trainer import Seen
from workers.models.folder import begin
from workers.models.hmm import HmmModel, Tables, save

NAME = "codl"


@dataclass(frozen=True)
class Learner:
    """What labelled documents say, and the words of the pool, each of its documents by its place."""

    labels: LabelSet
    read: Read
    first: Tables
    seen: Seen
    settings: CodlSettings

    @classmethod
    def of(cls, documents: Sequence[Document], pool: Sequence[Document], settings: CodlSettings) -> Learner:
        """Raises `TrainingError` where a labelled document has no labels."""
        seen = Seen((TOKENS,))
        for document in documents:
            seen.gold(document)
        for document in pool:
            seen.beside(document)
        labels = LabelSet.infer(seen.names.union(settings.labels))
        read = read_words(list(documents), list(pool), labels)
        first = estimated(counted(read.gold, read.word, len(read.words)), read.shape_of)
        return cls(labels, read, first, seen, settings)

    def learned(self, labellings: Sequence[Labels]) -> Tables:
        """The mixture of the first model and that of the pool (N tokens) labelled in one or more ways, each (N,)."""
        words, size = self.read.unlabelled, len(self.read.words)
        found = [counted(Gold(words.bounds, ids, len(self.labels)), words.word, size) for ids in labellings]
        mean = Counts(*(sum(parts) / len(found) for parts in zip(*found, strict=True)))
        pairs = zip(self.first, estimated(mean, self.read.shape_of), strict=True)
        return Tables(*(MIXED[self.settings.mixing](first, new, self.settings.gamma) for first, new in pairs))

    def save(self, tables: Tables, folder: Path) -> HmmModel:
        """The model of these tables as a folder. Raises `OutputError`."""
        training: dict[str, Any] = self.seen.training(NAME, self.settings.mixture)
        begin(folder)
        words, shapes, settings = self.read.words, self.read.shapes, HmmSettings(labels=self.labels.names)
        return save(folder, self.labels, words, shapes, tables, settings=settings, training=training)


def of_logarithms(first: Floats, learned: Floats, gamma: float) -> Floats:
    """The mixture of two logarithms."""
    return gamma * first + (1.0 - gamma) * learned


MIXED = {"probabilities": mixed, "logarithms": of_logarithms}


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

    def learned(self, labelled: Batch, labels: LabelSet) -> DeclaredConstraints:
        """The constraints as the mixture weighs them; ``labelled`` is the pool with the labels it was given."""
        if self.settings.penalties != "learned":
            return self.begun()
        gamma, new = self.settings.gamma, counted_weights(self.constraints, labelled, labels, self.settings)
        return with_weights(
            self.constraints, {name: gamma * nats + (1.0 - gamma) * new[name] for name, nats in self.first.items()}
        )


def counted_weights(
    constraints: DeclaredConstraints, labelled: Batch, labels: LabelSet, settings: CodlSettings
) -> dict[str, float]:
    """The log odds of every constraint, by name, see `workers.learning.penalties`."""
    counts = count_rows(constraints, [labelled], labels)
    odds, chosen = PENALTIES["odds"], OddsSettings(held=settings.held)
    return {name: found.weight(odds, chosen) for name, found in counts.items()}


def changed(before: Labels, after: Labels) -> float:
    """The share of tokens with another label; of two labellings of the same tokens."""
    return float((before != after).mean()) if len(after) else 0.0
