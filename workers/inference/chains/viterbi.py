"""The best labelling under the local model alone: Fersini et al. (2014) eq. 7–9."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from schemas.decoded import Budget, Decoded, Improvement, Status
from schemas.labels import Labels
from schemas.problem import Problem
from schemas.settings import EngineSettings
from workers.inference.core.chain import viterbi
from workers.inference.core.engine import UNLIMITED, proven


def solve(
    problem: Problem,
    *,
    config: EngineSettings,
    rng: np.random.Generator,
    budget: Budget = UNLIMITED,
    incumbent: Labels | None = None,
) -> Decoded:
    """The local optimum, or ``incumbent`` where that scores higher under the constraints.

    Penalties are never negative, so the local optimum is a bound on every labelling, and a labelling
    without penalty that reaches it is proven optimal. Work is the number of tokens.
    """
    del config, rng, budget
    started = time.perf_counter()
    best = viterbi(problem.potentials)
    bound = problem.potentials.score(best)
    found = problem.decoded(best, bound=bound, status=Status.FEASIBLE, work=len(problem))
    if incumbent is not None and problem.score(incumbent).objective > found.objective:
        found = problem.decoded(incumbent, bound=bound, status=Status.FEASIBLE, work=len(problem))
    seconds = time.perf_counter() - started
    return replace(
        found,
        status=proven(found.objective, bound, otherwise=Status.FEASIBLE),
        seconds=seconds,
        improvements=(Improvement(seconds, len(problem), found.objective),),
    )
