"""The engine, as it is registered; it is imported when it runs first."""

from __future__ import annotations

from typing import Any

from concord.schemas.decoded import Decoded
from concord.schemas.problem import Problem
from concord.workers.inference.core.engine import Solver
from concord.workers.papers.canisius.settings import CspSettings


def _csp(problem: Problem, **arguments: Any) -> Decoded:
    from concord.workers.papers.canisius.csp import solve

    return solve(problem, **arguments)


CSP = Solver(
    _csp,
    CspSettings,
    "exhaustive search over the likeliest labels of each token",
    exact=False,
    chance=False,
    comparison=True,
)
