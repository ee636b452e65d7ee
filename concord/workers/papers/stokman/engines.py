"""The engines, as they are registered; each is imported when it runs first."""

from __future__ import annotations

from typing import Any

from concord.schemas.decoded import Decoded
from concord.schemas.problem import Problem
from concord.workers.inference.core.engine import Solver
from concord.workers.papers.stokman.settings import AnytimeSettings, EvolutionSettings


def _evolution(problem: Problem, **arguments: Any) -> Decoded:
    from concord.workers.papers.stokman.evolution import solve

    return solve(problem, **arguments)


def _anytime(problem: Problem, **arguments: Any) -> Decoded:
    from concord.workers.papers.stokman.anytime import solve

    return solve(problem, **arguments)


EVOLUTION = Solver(
    _evolution,
    EvolutionSettings,
    "evolutionary search over whole labellings",
    exact=False,
    bounds=False,
    comparison=True,
)
ANYTIME = Solver(
    _anytime,
    AnytimeSettings,
    "discrepancy search for short documents, evolution for long ones",
    exact=False,
    comparison=True,
)
