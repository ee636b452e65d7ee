"""The contract every engine keeps, run over `SOLVERS` itself: the checks that authors of other engines are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from concord.schemas.decoded import Decoded, Status
from concord.schemas.problem import Problem
from concord.schemas.settings import EngineSettings
from concord.testing.engines import (
    ENGINE_CHECKS,
    PROBLEMS,
    answers_keep_to_brute_force,
    check_engine,
    exact_engines_prove_the_optimum,
    inputs_are_left_alone,
)
from concord.workers.inference.core.engine import Solver
from concord.workers.inference.registry import SOLVERS

BLOCKS = (answers_keep_to_brute_force, exact_engines_prove_the_optimum)
"""Those on all problems, which take long for some engines."""


@pytest.mark.parametrize("engine", list(SOLVERS))
@pytest.mark.parametrize("check", [check for check in ENGINE_CHECKS if check not in BLOCKS])
def test_every_engine_keeps_each_promise(engine: str, check: Callable[[Solver, range], None]) -> None:
    check(SOLVERS[engine], range(PROBLEMS))


@pytest.mark.parametrize("engine", list(SOLVERS))
@pytest.mark.parametrize("check", BLOCKS)
@pytest.mark.parametrize("block", range(6))
def test_every_engine_keeps_to_brute_force(engine: str, check: Callable[[Solver, range], None], block: int) -> None:
    check(SOLVERS[engine], range(PROBLEMS)[block::6])


# The checks themselves: each fault is found, and by its own words


def faulty(change: Callable[[Problem, Decoded, Any], Decoded], *, exact: bool = True) -> Solver:
    """An exact engine whose answers are changed; ``change`` is told the start that was given, too."""

    def solve(problem: Problem, **given: Any) -> Decoded:
        found = SOLVERS["discrepancy"].solve(problem, **given | {"config": SOLVERS["discrepancy"].settings()})
        return change(problem, found, given)

    return Solver(solve, EngineSettings, "faulty", exact=exact)


def by_chance(problem: Problem, found: Decoded, given: Any) -> Decoded:
    """An answer that no seed decides."""
    return replace(found, work=int(np.random.default_rng().integers(1 << 60)))


def spoiled(problem: Problem, found: Decoded, given: Any) -> Decoded:
    problem.potentials.unary[0, 0] += 1.0
    return found


def heuristic(problem: Problem, found: Decoded, given: Any) -> Decoded:
    """The model's best labels, whatever they are given to start from."""
    return SOLVERS["viterbi"].solve(problem, **given | {"config": EngineSettings(), "incumbent": None})


@pytest.mark.parametrize(
    ("solver", "said"),
    [
        (
            faulty(lambda _, found, __: replace(found, bound=found.objective - 1.0)),
            "a bound of .* nats, and a labelling",
        ),
        (
            faulty(lambda _, found, __: replace(found, score=replace(found.score, local=found.local + 1.0))),
            "the local score is that of",
        ),
        (faulty(lambda _, found, __: replace(found, labels=found.labels.astype(np.int64))), "labels are int32"),
        (faulty(lambda _, found, __: replace(found, labels=found.labels[1:])), "label"),
        (faulty(lambda _, found, __: replace(found, status=Status.FEASIBLE)), "proves its answer|feasible"),
        (faulty(heuristic), "an exact engine proves its answer"),
        (faulty(heuristic, exact=False), "given the best labelling, an engine keeps it"),
        (faulty(by_chance), "the same bound, status and work for the same seed"),
    ],
    ids=["bound", "local", "type", "shape", "status", "inexact", "forgets", "chance"],
)
def test_a_fault_is_found(solver: Solver, said: str) -> None:
    with pytest.raises((AssertionError, ValueError), match=said):
        check_engine(solver)


def test_an_engine_that_changes_its_problem_is_found() -> None:
    with pytest.raises(AssertionError, match="an engine leaves its problem as it is"):
        inputs_are_left_alone(faulty(spoiled), range(PROBLEMS))
