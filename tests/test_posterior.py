"""The engine that labels by marginals, against enumeration: most tokens right on average, and always a labelling."""

from __future__ import annotations

import numpy as np
import pytest

from concord.schemas.decoded import Decoded, Status
from concord.schemas.labels import LabelSet, Scheme
from concord.schemas.potentials import Potentials
from concord.schemas.problem import LinearRows, Problem
from concord.testing.problems import LABEL_SETS, all_labellings, local_scores, random_problem
from concord.workers.inference.core.engine import document_rng
from concord.workers.inference.registry import SOLVERS, Decoder
from tests.support.seeds import over_seeds


def answer(problem: Problem) -> Decoded:
    return Decoder.of("posterior")(problem, "d")


@over_seeds()
def test_no_possible_labelling_has_more_tokens_right_on_average(seed: int) -> None:
    problem = random_problem(np.random.default_rng(seed), labels=LABEL_SETS[seed % 4])
    labellings = all_labellings(len(problem), len(problem.labels))
    scores = local_scores(problem.potentials, labellings)
    chance = np.exp(scores - np.logaddexp.reduce(scores))
    right = np.array([((labellings == one).sum(axis=1) * chance).sum() for one in labellings[chance > 0]])
    found = answer(problem)
    assert ((labellings == found.labels).sum(axis=1) * chance).sum() == pytest.approx(right.max())
    assert found.bound == pytest.approx(scores.max())


def test_it_is_not_the_best_labelling() -> None:
    """Three labellings of two tokens: a a by 0.4, b a and b b by 0.3 each. More often than not the first is b."""
    with np.errstate(divide="ignore"):
        transition = np.log(np.array([[0.4, 0.0], [0.3, 0.3]]))
    local = Potentials(np.zeros((2, 2)), transition, np.zeros(1, np.int64))
    problem = Problem(local, LabelSet(("a", "b"), Scheme.PLAIN), (), LinearRows.join([]), ())
    found = answer(problem)
    assert Decoder.of("viterbi")(problem, "d").labels.tolist() == [0, 0]
    assert found.labels.tolist() == [1, 0]
    assert found.status is Status.FEASIBLE
    assert found.gap == pytest.approx(np.log(0.4 / 0.3))


def test_an_impossible_sentence_has_the_labels_of_viterbi() -> None:
    problem = random_problem(np.random.default_rng(0), rows=False, agreements=False, tokens=3)
    nothing = np.full_like(problem.potentials.unary, -np.inf)
    local = Potentials(nothing, problem.potentials.transition, problem.potentials.sentence_starts)
    impossible = Problem(local, problem.labels, (), problem.rows, ())
    solved = SOLVERS["posterior"].solve(impossible, config=None, rng=document_rng(0, "d"))
    assert solved.status is Status.INFEASIBLE
    np.testing.assert_array_equal(solved.labels, Decoder.of("viterbi")(impossible, "d").labels)
