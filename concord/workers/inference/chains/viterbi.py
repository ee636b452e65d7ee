"""The best labelling under the local model alone: Fersini et al. (2014) eq. 7–9."""

from __future__ import annotations

import time

import numpy as np

from concord.schemas.decoded import Budget, Decoded, Improvement, Score, Status
from concord.schemas.labels import Labels
from concord.schemas.problem import Problem
from concord.schemas.settings import EngineSettings
from concord.workers.inference.core.engine import UNLIMITED, proven
from concord.workers.inference.core.prepared import Prepared


def solve(
    problem: Problem,
    *,
    config: EngineSettings,
    rng: np.random.Generator,
    budget: Budget = UNLIMITED,
    incumbent: Labels | None = None,
) -> Decoded:
    """The local optimum, or ``incumbent`` if that scores higher under the constraints.

    Penalties are never negative, so the local optimum bounds every labelling, and a Viterbi labelling without penalty
    is proven optimal. Work is the number of tokens.
    """
    del config, rng, budget
    started = time.perf_counter()
    prepared = Prepared.of(problem)
    return bounded(prepared, *prepared.better_of(incumbent), started)


def bounded(prepared: Prepared, labels: Labels, score: Score, started: float) -> Decoded:
    """The answer ``labels`` with the local optimum as its bound; ``started`` is a reading of `time.perf_counter`."""
    bound, work = prepared.top, len(prepared.potentials)
    seconds = time.perf_counter() - started
    return prepared.decoded(
        labels,
        bound=bound,
        status=proven(score.objective, bound, otherwise=Status.FEASIBLE),
        work=work,
        seconds=seconds,
        improvements=(Improvement(seconds, work, score.objective),),
        score=score,
    )
