"""All engines against each other on problems too long to enumerate: no answer is above a bound of any other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from concord.schemas.decoded import Budget, Decoded, Status
from concord.schemas.problem import Problem
from concord.schemas.settings import EngineSettings
from concord.workers.inference.core.chain import viterbi
from concord.workers.inference.core.engine import UNLIMITED, Solver, document_rng
from concord.workers.inference.registry import SOLVERS
from tests.support.referees.problems import PARTS, Kind, problem_of_kind

TOLERANCE = 1e-6

WORK = {"cpsat": 500, "ilp": 500, "two-stage": 500, "gibbs": 2_000_000, "certify": 20_000_000}
"""Units of each engine's own work; 20,000 where it is not named."""

PROBLEMS = [
    (seed, Kind(size, PARTS[seed % 3], ("soft", "mixed", "hard")[seed // 3 % 3]))
    for seed, size in enumerate(["8-15"] * 4 + ["16-30"] * 4 + ["31-60"] * 4)
]


def contested(seed: int, kind: Kind) -> Problem:
    """A problem whose Viterbi labelling breaks something, so that there is something to search for."""
    rng = np.random.default_rng(seed)
    while True:
        problem = problem_of_kind(rng, kind)
        if problem.score(viterbi(problem.potentials)).penalty > 0:
            return problem


def answers(problem: Problem, engines: Mapping[str, Solver]) -> dict[str, Decoded]:
    """What each engine says within its budget."""
    return {
        name: solver.solve(
            problem,
            config=solver.settings(),
            rng=document_rng(0, "tournament"),
            budget=Budget(work=WORK.get(name, 20_000)),
        )
        for name, solver in engines.items()
    }


def judge(problem: Problem, found: Mapping[str, Decoded]) -> float:
    """The best objective of all; an `AssertionError` names the engine whose answer or bound cannot be."""
    best = max(problem.score(decoded.labels).objective for decoded in found.values())
    for name, decoded in found.items():
        assert decoded.objective == problem.score(decoded.labels).objective, name
        assert decoded.bound >= best - TOLERANCE, f"{name} bounds by {decoded.bound}, another has {best}"
        if decoded.certified:
            assert decoded.objective >= best - TOLERANCE, f"{name} claims {decoded.objective}, another has {best}"
        assert decoded.work <= 2 * WORK.get(name, 20_000), f"{name} did {decoded.work} of work"
    return best


@pytest.mark.parametrize(("seed", "kind"), PROBLEMS, ids=str)
def test_no_answer_is_above_a_bound(seed: int, kind: Kind) -> None:
    problem = contested(seed, kind)
    found = answers(problem, SOLVERS)
    best = judge(problem, found)
    assert best > -np.inf
    # Any two proofs agree, and there is one: the contest is about something.
    assert any(decoded.certified for decoded in found.values())


def claims(problem: Problem, **_: Any) -> Decoded:
    """Honest on eight tokens and fewer; beyond them Viterbi's labels are called the best."""
    labels = viterbi(problem.potentials)
    objective = problem.score(labels).objective
    bound = problem.potentials.score(labels) if len(problem) <= 8 else objective
    return problem.decoded(labels, bound=bound, status=Status.OPTIMAL if bound == objective else Status.FEASIBLE)


def ignores(problem: Problem, *, budget: Budget = UNLIMITED, **_: Any) -> Decoded:
    """Works on, whatever it was allowed."""
    labels = viterbi(problem.potentials)
    bound = problem.potentials.score(labels)
    return problem.decoded(labels, bound=bound, status=Status.TIMEOUT, work=10 * (budget.work or 1))


@pytest.mark.parametrize(("wrong", "fault"), [(claims, "wrong bounds by"), (ignores, "wrong did")])
def test_engines_that_cheat_are_found_out(wrong: Any, fault: str) -> None:
    """Both pass on problems small enough to enumerate without a budget."""
    engines = {"certify": SOLVERS["certify"], "wrong": Solver(wrong, EngineSettings, "wrong", exact=False)}
    caught = []
    for seed, kind in PROBLEMS:
        problem = contested(seed, kind)
        try:
            judge(problem, answers(problem, engines))
        except AssertionError as error:
            caught.append(str(error))
    assert any(fault in message for message in caught)
