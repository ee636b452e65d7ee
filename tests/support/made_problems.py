"""Made-up problems under rows and agreements."""

from __future__ import annotations

import numpy as np

from concord.schemas.labels import LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.problem import LinearRows, Problem, Relation, SpanAgreement
from concord.testing.problems import (
    LABEL_SETS,
    naive_keys,
    random_potentials,
    random_rows,
    random_words,
)


def names(seed: int, cost: float) -> Problem:
    """Four sentences of five tokens over few words, under all three relations that are priced."""
    rng = np.random.default_rng(seed)
    labels, starts = LabelSet.bio(["PER", "ORG"]), np.arange(0, 20, 5)
    width = len(labels)
    key = naive_keys(rng.integers(0, 6, 20).tolist(), starts.tolist(), 3)
    costs = cost * (1.0 - np.eye(2))
    potentials = Potentials(rng.normal(0.0, 2.0, (20, width)), rng.normal(0.0, 1.0, (width, width)), starts)
    agreements = (
        SpanAgreement(0, Relation.EXACT, key, costs),
        SpanAgreement(1, Relation.CONTAINED, key, costs),
        SpanAgreement(2, Relation.UNLABELLED, key, np.full((2, 1), 0.3 * cost)),
    )
    names = ("exact", "part", "left out")
    return Problem(potentials.legal(labels), labels, names, LinearRows.none(), agreements)


PEOPLE = LabelSet.bio(["PER", "ORG", "LOC"])


def names_in_sentences(seed: int, sentences: int, *, words: int = 5, cost: float = 2.0) -> Problem:
    """Sentences of six tokens over few words, under exact and subsequence agreement."""
    rng = np.random.default_rng(seed)
    count, width = 6 * sentences, len(PEOPLE)
    starts = np.arange(0, count, 6)
    key = naive_keys(rng.integers(0, words, count).tolist(), starts.tolist(), 4)
    costs = cost * (1.0 - np.eye(3))
    potentials = Potentials(rng.normal(0.0, 2.0, (count, width)), rng.normal(0.0, 1.0, (width, width)), starts)
    agreements = (SpanAgreement(0, Relation.EXACT, key, costs), SpanAgreement(1, Relation.CONTAINED, key, costs))
    return Problem(potentials.legal(PEOPLE), PEOPLE, ("exact", "part"), LinearRows.none(), agreements)


def all_rows(seed: int) -> Problem:
    """A small problem with up to nine rows at once: loss and penalty have a hull of several corners."""
    rng = np.random.default_rng(seed)
    labels = LABEL_SETS[seed % 4]
    starts = random_words(rng, 6)[1]
    potentials, kept = random_potentials(rng, labels, starts, 6)
    rows = LinearRows.join([random_rows(rng, labels, kept, starts, 6) for _ in range(3)])
    return Problem(potentials, labels, ("a", "b", "c"), rows)
