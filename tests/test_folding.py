"""Folded problems: the same scores with fewer rows, whatever the rows; and rows that cannot bind change nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import concord
from concord.schemas.arrays import Floats
from concord.schemas.decoded import Status
from concord.schemas.problem import ANY, LinearRows, Problem, Relation
from concord.testing.problems import EVERY_SET, all_labellings, enumerate_best, random_problem
from concord.workers.inference.core import folding
from concord.workers.inference.core.folding import Folded
from concord.workers.inference.core.row_reach import tokens_of_rows
from tests.support.seeds import over_seeds

FOLDING = ("certify", "cpsat", "gibbs", "discrepancy", "beam", "astar", "window")
"""Engines that solve problems folded."""


def extreme(problem: Problem, rng: np.random.Generator) -> Problem:
    """The problem with weights from 1e-9 to 1e6, and some of 0."""
    rows = problem.rows
    weight = np.where(np.isinf(rows.weight), np.inf, 10.0 ** rng.uniform(-9, 6, len(rows)))
    return replace(problem, rows=replace(rows, weight=np.where(rng.random(len(rows)) < 0.1, 0.0, weight)))


def objectives(problem: Problem) -> Floats:
    labellings = all_labellings(len(problem), len(problem.labels))
    return np.array([problem.score(labels).objective for labels in labellings])


@over_seeds()
def test_each_labelling_has_the_same_score(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = EVERY_SET[seed % len(EVERY_SET)]
    problem = extreme(random_problem(rng, labels=labels, tokens=1 + seed % 3, infeasible=seed % 7 == 0), rng)
    folded = Folded.of(problem)
    if folded is None:
        assert (tokens_of_rows(problem)[problem.rows.weight > 0] != 1).all()
        return
    whole, other = objectives(problem), objectives(folded.problem)
    assert np.array_equal(np.isneginf(whole), np.isneginf(other))
    possible = np.isfinite(whole)
    assert np.allclose(whole[possible], other[possible], rtol=1e-12, atol=1e-9)
    left = folded.problem.rows
    assert np.array_equal(left.weight, problem.rows.weight[folded.rows])
    reach = tokens_of_rows(folded.problem)
    assert ((reach == 0) | (reach > 2)).all()
    assert (left.weight > 0).all()


def test_a_document_too_large_for_a_matrix_a_token_keeps_its_rows_of_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "MOST_CELLS", 0)
    some = 0
    for seed in range(20):
        problem = random_problem(np.random.default_rng(seed), tokens=3)
        folded = Folded.of(problem)
        if folded is None:
            continue
        some += bool((tokens_of_rows(folded.problem) == 2).any())
        assert folded.problem.potentials.transition is problem.potentials.transition
        assert objectives(folded.problem).max() == pytest.approx(objectives(problem).max())
    assert some > 0


def idle_rows(problem: Problem) -> LinearRows:
    """Rows that cannot bind: one that no labelling breaks, and one without weight; each at the last token."""
    last, size = len(problem) - 1, len(problem.constraint_names)
    return LinearRows(
        np.array([0, 1, 2]),
        np.full(2, last, np.int32),
        np.full(2, ANY, np.int32),
        np.zeros(2, np.int32),
        np.ones(2),
        np.array([1.0, 0.0]),
        np.array([np.inf, 0.0]),
        np.full(2, size, np.int32),
    )


@pytest.mark.parametrize("engine", FOLDING)
@over_seeds(stay=2, many=24)
def test_rows_that_cannot_bind_change_no_answer_no_status_and_no_work(engine: str, seed: int) -> None:
    problem = random_problem(np.random.default_rng(seed), labels=EVERY_SET[seed % len(EVERY_SET)], tokens=1 + seed % 5)
    more = replace(
        problem,
        constraint_names=(*problem.constraint_names, "idle"),
        rows=LinearRows.join([problem.rows, idle_rows(problem)]),
    )
    alone, beside = (concord.solve(one, engine=engine, doc_id="d") for one in (problem, more))
    assert beside.labels.tolist() == alone.labels.tolist()
    assert (beside.status, beside.work) == (alone.status, alone.work)
    assert beside.bound == pytest.approx(alone.bound)
    assert beside.score.penalties[-1] == 0.0


@over_seeds(stay=20, many=600)
def test_certify_proves_rows_and_agreement_together_without_a_solver(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, tokens=1 + seed % 5)
    answer = concord.solve(problem, engine="certify", doc_id="d")
    best = enumerate_best(problem)[1]
    # Values that differ have no prices, so some need more nodes than there are.
    unpriced = any(agreement.relation is Relation.DIFFERENT for agreement in problem.agreements)
    if answer.status is not Status.BY_SOLVER or not unpriced:
        assert answer.status is (Status.OPTIMAL if best > -np.inf else Status.INFEASIBLE)
    assert answer.objective == pytest.approx(best, abs=1e-6)
    assert answer.bound >= best - 1e-9


def test_penalties_and_degrees_are_those_of_the_problem_as_it_was() -> None:
    problem = next(p for p in map(_penalised, range(99)) if p is not None)
    answer = concord.solve(problem, engine="certify", doc_id="d")
    score = problem.score(answer.labels)
    assert score.penalty > 0.0
    assert (answer.score.local, answer.score.penalty) == (score.local, score.penalty)
    assert answer.score.degree.tolist() == score.degree.tolist()


def _penalised(seed: int) -> Problem | None:
    """A problem whose best labelling breaks a row that is folded."""
    problem = random_problem(np.random.default_rng(seed), agreements=False)
    labels, best = enumerate_best(problem)
    folded = Folded.of(problem)
    return problem if folded is not None and best > -np.inf and problem.score(labels).penalty > 0.0 else None
