"""Discrepancy search for short documents, evolution for long ones: Stokman (2011) §5.1."""

from __future__ import annotations

import numpy as np

from concord.schemas.decoded import Budget, Decoded
from concord.schemas.labels import Labels
from concord.schemas.problem import Problem
from concord.workers.inference.core.engine import UNLIMITED
from concord.workers.inference.search import discrepancy
from concord.workers.papers.stokman import evolution
from concord.workers.papers.stokman.settings import AnytimeSettings


def solve(
    problem: Problem,
    *,
    config: AnytimeSettings,
    rng: np.random.Generator,
    budget: Budget = UNLIMITED,
    incumbent: Labels | None = None,
) -> Decoded:
    """Discrepancy search up to ``config.tokens`` tokens, evolution above. Work is counted in that engine's own unit."""
    if len(problem) <= config.tokens:
        return discrepancy.solve(problem, config=config.discrepancy, rng=rng, budget=budget, incumbent=incumbent)
    return evolution.solve(problem, config=config.evolution, rng=rng, budget=budget, incumbent=incumbent)
