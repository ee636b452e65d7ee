"""The engine, as it is registered; it is imported when it runs first."""

from __future__ import annotations

from typing import Any

from concord.schemas.decoded import Decoded
from concord.schemas.problem import Problem
from concord.workers.inference.core.engine import Solver
from concord.workers.papers.finkel.settings import AnnealedSettings


def _annealed(problem: Problem, **arguments: Any) -> Decoded:
    from concord.workers.papers.finkel.annealed import solve

    return solve(problem, **arguments)


ANNEALED = Solver(
    _annealed,
    AnnealedSettings,
    "one annealed chain from random labels; not helped by Viterbi",
    exact=False,
    bounds=False,
    own_aim=True,
    comparison=True,
)
