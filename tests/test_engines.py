"""The contract every engine keeps, run over `SOLVERS` itself on problems small enough to enumerate."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from concord.schemas.decoded import Budget, Decoded, Status
from concord.schemas.labels import Labels
from concord.schemas.problem import Problem
from concord.workers.inference.core.chain import viterbi
from concord.workers.inference.core.engine import UNLIMITED, document_rng
from concord.workers.inference.registry import SOLVERS
from tests.oracle import LABEL_SETS, enumerate_best, random_labelling, random_problem

TOLERANCE = 1e-6
SEEDS = range(60)
EXACT = [name for name, solver in SOLVERS.items() if solver.exact]

every_engine = pytest.mark.parametrize("engine", list(SOLVERS))
every_exact_engine = pytest.mark.parametrize("engine", EXACT)


def problem_of(seed: int) -> Problem:
    """Every label set, mixture of constraint kinds and length in turn."""
    return random_problem(
        np.random.default_rng(seed), labels=LABEL_SETS[seed % 4], rows=seed % 3 != 1, agreements=seed % 3 != 2
    )


def run(
    engine: str, problem: Problem, *, seed: int = 0, budget: Budget = UNLIMITED, incumbent: Labels | None = None
) -> Decoded:
    solver = SOLVERS[engine]
    return solver.solve(
        problem, config=solver.settings(), rng=document_rng(seed, "doc"), budget=budget, incumbent=incumbent
    )


def check_answer(problem: Problem, decoded: Decoded, best: float) -> None:
    """What holds of every answer of every engine, whatever the budget was."""
    score = problem.score(decoded.labels)
    assert decoded.labels.shape == (len(problem),)
    assert decoded.labels.dtype == np.int32
    assert np.isfinite(problem.potentials.score(decoded.labels))
    assert decoded.local == score.local
    assert decoded.penalty == score.penalty
    assert decoded.objective == score.objective
    np.testing.assert_array_equal(decoded.degree, score.degree)
    np.testing.assert_array_equal(decoded.penalties, score.penalties)
    assert decoded.objective <= best + 1e-9
    assert decoded.bound >= best - 1e-9
    assert decoded.bound >= decoded.objective
    assert decoded.gap >= 0
    assert decoded.work >= 0
    if decoded.certified:
        assert decoded.objective == pytest.approx(best, abs=TOLERANCE)
    if decoded.status is Status.FEASIBLE:
        assert np.isfinite(decoded.objective)
    if decoded.status is Status.INFEASIBLE:
        assert best == -np.inf
    rising = [i.objective for i in decoded.improvements]
    assert rising == sorted(set(rising))
    assert [i.work for i in decoded.improvements] == sorted(i.work for i in decoded.improvements)


@every_engine
@pytest.mark.parametrize("block", range(6))
def test_answers_against_brute_force(engine: str, block: int) -> None:
    for seed in SEEDS[block::6]:
        problem = problem_of(seed)
        check_answer(problem, run(engine, problem), enumerate_best(problem)[1])


@every_exact_engine
@pytest.mark.parametrize("block", range(6))
def test_exact_engines_prove_the_optimum(engine: str, block: int) -> None:
    for seed in SEEDS[block::6]:
        problem = problem_of(1000 + seed)
        decoded = run(engine, problem)
        assert decoded.certified, seed
        assert decoded.objective == pytest.approx(enumerate_best(problem)[1], abs=TOLERANCE), seed
        assert decoded.gap <= TOLERANCE


@every_engine
def test_without_constraints_no_engine_loses_to_viterbi(engine: str) -> None:
    for seed in range(20):
        problem = random_problem(np.random.default_rng(seed), rows=False, agreements=False)
        decoded = run(engine, problem, incumbent=viterbi(problem.potentials))
        assert decoded.objective == pytest.approx(enumerate_best(problem)[1])


@every_engine
def test_one_token(engine: str) -> None:
    for seed in range(12):
        problem = random_problem(np.random.default_rng(seed), tokens=1, labels=LABEL_SETS[seed % 4])
        check_answer(problem, run(engine, problem), enumerate_best(problem)[1])


@every_engine
def test_infeasible_sets(engine: str) -> None:
    """The Viterbi labels come back, marked; an engine that proves nothing may only run out of budget."""
    for seed in range(12):
        problem = random_problem(np.random.default_rng(seed), infeasible=True, tokens=1 + seed % 5)
        decoded = run(engine, problem)
        check_answer(problem, decoded, -np.inf)
        assert decoded.objective == -np.inf
        assert decoded.status not in (Status.OPTIMAL, Status.FEASIBLE)
        if SOLVERS[engine].exact:
            assert decoded.status is Status.INFEASIBLE
            np.testing.assert_array_equal(decoded.labels, viterbi(problem.potentials))


@every_engine
def test_the_same_seed_gives_the_same_bytes(engine: str) -> None:
    for seed in range(12):
        problem = problem_of(seed)
        first, second = run(engine, problem, seed=seed), run(engine, problem, seed=seed)
        assert first.labels.tobytes() == second.labels.tobytes()
        assert (first.bound, first.status, first.work) == (second.bound, second.status, second.work)
        assert [i[1:] for i in first.improvements] == [i[1:] for i in second.improvements]


@every_engine
def test_an_incumbent_is_never_made_worse(engine: str) -> None:
    for seed in range(24):
        problem = problem_of(seed)
        best, value = enumerate_best(problem)
        decoded = run(engine, problem, incumbent=best)
        check_answer(problem, decoded, value)
        assert decoded.objective == pytest.approx(value, abs=1e-9)
        rng = np.random.default_rng(seed)
        start = random_labelling(rng, problem.labels, problem.potentials.sentence_starts, len(problem))
        decoded = run(engine, problem, incumbent=start, budget=Budget(work=1))
        assert decoded.objective >= problem.score(start).objective


@every_engine
def test_a_tiny_budget_still_answers(engine: str) -> None:
    for seed in range(24):
        problem = problem_of(seed)
        check_answer(problem, run(engine, problem, budget=Budget(work=1)), enumerate_best(problem)[1])
        check_answer(problem, run(engine, problem, budget=Budget(seconds=1e-4)), enumerate_best(problem)[1])


@every_engine
def test_inputs_are_left_alone(engine: str) -> None:
    problem = problem_of(3)
    start = viterbi(problem.potentials)
    arrays: list[NDArray[Any]] = [
        problem.potentials.unary,
        problem.potentials.transition,
        start,
        *(a.key for a in problem.agreements),
    ]
    arrays += [problem.rows.coefficient, problem.rows.bound, *(a.cost for a in problem.agreements)]
    before = [a.tobytes() for a in arrays]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(engine, problem, incumbent=start)
    assert [a.tobytes() for a in arrays] == before
