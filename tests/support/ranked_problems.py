"""Problems small enough for all their labellings to be ranked."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
from concord.schemas.labels import LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.problem import LinearRows, Problem, Relation, SpanAgreement
from concord.testing.problems import (
    all_labellings,
    local_scores,
    naive_keys,
    random_labelling,
)

PEOPLE, NAMES = LabelSet.bio(["PER"]), LabelSet.bio(["PER", "ORG"])


class Ranked(NamedTuple):
    """A problem with its possible labellings (K, N), the best first, and what they score (K,) in nats."""

    problem: Problem
    labellings: NDArray[np.int32]
    scores: Floats


def ranked(problem: Problem) -> Ranked:
    found = all_labellings(len(problem), len(problem.labels))
    found = found[np.isfinite(local_scores(problem.potentials, found))]
    scores = np.array([problem.score(labels).objective for labels in found])
    order = np.argsort(-scores, kind="stable")
    order = order[np.isfinite(scores[order])]
    return Ranked(problem, found[order], scores[order])


def crowded(seed: int) -> Problem:
    """One word, of which every relation that is priced says something, so little that the best labelling pays."""
    rng = np.random.default_rng(seed)
    labels, count = (PEOPLE, 5) if seed % 2 else (NAMES, 4)
    starts = np.array([0, 2][: int(rng.integers(1, 3))], np.int64)
    key = naive_keys([0] * count, starts.tolist(), 3)
    kinds, width = len(labels.types), len(labels)
    agreements = []
    for number, relation in enumerate((Relation.EXACT, Relation.CONTAINED, Relation.UNLABELLED)):
        cost = rng.uniform(0.1, 0.8, (kinds, kinds)) * (rng.random((kinds, kinds)) < 0.8)
        # With one relation alone other roles are counted.
        cost *= rng.random() < 0.6
        cost = cost[:, :1] if relation is Relation.UNLABELLED else cost
        cost = cost + cost.T if relation is Relation.EXACT else cost
        agreements.append(SpanAgreement(number, relation, key, cost, per_token=bool(rng.random() < 0.5)))
    unary = rng.normal(0.0, 1.0, (count, width))
    unary[np.arange(count), random_labelling(rng, labels, starts, count)] += 8.0
    potentials = Potentials(unary, rng.normal(0.0, 1.0, (width, width)), starts)
    names = ("exact", "part", "left out")
    return Problem(potentials.legal(labels), labels, names, LinearRows.none(), tuple(agreements))
