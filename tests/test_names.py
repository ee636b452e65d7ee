"""Groups of mentions of one name, and the local search over them."""

from __future__ import annotations

import numpy as np
import pytest

from concord.schemas.labels import Labels, LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.problem import Problem, Relation, SpanAgreement
from concord.testing.problems import enumerate_best, random_labelling, random_problem
from concord.workers.constraints.consistency import span_keys
from concord.workers.inference.core.engine import UNLIMITED
from concord.workers.inference.core.incumbent import Search
from concord.workers.inference.sampling.names import sites_of
from concord.workers.inference.sampling.settling import settle
from tests.support.seeds import over_seeds

LABELS = LabelSet.bio(["PER", "LOC"])
HARD = 50.0


def settled(problem: Problem, start: Labels, *, most_loss: float) -> Labels:
    search = Search(problem, budget=UNLIMITED, incumbent=None)
    search.restart(start)
    settle(search, sites_of(search.problem, most_loss), hard_weight=HARD)
    return search.labels


@over_seeds()
def test_never_worse_and_never_above_the_optimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    start = random_labelling(rng, problem.labels, problem.potentials.sentence_starts, len(problem))
    found = settled(problem, start, most_loss=10.0)
    objective = problem.score(found).objective
    assert objective >= problem.score(start).objective - 1e-9
    assert objective <= enumerate_best(problem)[1] + 1e-9


def test_all_mentions_turn_together_with_the_longer_name_around_one() -> None:
    """Washington is a place by its sentences alone; only as a whole is it cheaper as the person it is once."""
    words = np.array([0, 1, 2, 1, 3, 1, 4], np.int32)
    starts = np.array([0, 3, 5], np.int64)
    unary = np.zeros((7, len(LABELS)))
    outside, person, within, place = (LABELS.index[name] for name in ("O", "B-PER", "I-PER", "B-LOC"))
    unary[[2, 4, 6], outside] = 9.0
    unary[0, person], unary[1, within], unary[1, place] = 9.0, 12.0, 5.0
    unary[[3, 5], place], unary[[3, 5], person] = 5.0, 4.0
    keys = span_keys(words, starts, 3)
    cost = np.array([[0.0, 3.0], [3.0, 0.0]])
    agreements = SpanAgreement(0, Relation.EXACT, keys, cost), SpanAgreement(1, Relation.CONTAINED, keys, cost)
    potentials = Potentials(unary, np.zeros((5, 5)), starts).legal(LABELS)
    problem = Problem(potentials, LABELS, ("exact", "contained"), agreements=agreements)
    start = np.array([person, within, outside, place, outside, place, outside], np.int32)
    found = settled(problem, start, most_loss=20.0)
    assert problem.score(found).objective == pytest.approx(enumerate_best(problem)[1])
    assert (found[[3, 5]] == person).all()
