"""Answers of engines, checked against the best of all labellings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from concord.schemas.decoded import Budget, Decoded, Status
from concord.schemas.labels import Labels
from concord.schemas.problem import Problem
from concord.testing import engines
from concord.testing.engines import check_answer
from concord.testing.problems import enumerate_best
from concord.workers.inference.core.engine import UNLIMITED
from concord.workers.inference.registry import SOLVERS

EXACT = [name for name, solver in SOLVERS.items() if solver.exact]


def run(
    engine: str, problem: Problem, *, seed: int = 0, budget: Budget = UNLIMITED, incumbent: Labels | None = None
) -> Decoded:
    return engines.run(SOLVERS[engine], problem, seed=seed, budget=budget, incumbent=incumbent)


class Enumerated(NamedTuple):
    """A problem, and the best objective of all labellings in nats; all engines share both."""

    problem: Problem
    best: float

    @classmethod
    def of(cls, problem: Problem) -> Enumerated:
        return cls(problem, enumerate_best(problem)[1])


def judge(engine: str, enumerated: Enumerated) -> bool:
    """Checks the answer; was there a feasible labelling?"""
    problem, best = enumerated
    decoded = run(engine, problem)
    check_answer(problem, decoded, best)
    if engine in EXACT:
        assert decoded.certified if best > -np.inf else decoded.status is Status.INFEASIBLE
    return best > -np.inf
