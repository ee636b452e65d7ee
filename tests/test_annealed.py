"""Finkel's sampler by itself: it comes near Viterbi by its own sweeps, and is not handed Viterbi's labels."""

from __future__ import annotations

import numpy as np
import pytest

from concord.schemas.decoded import Decoded, Status
from concord.schemas.problem import Problem
from concord.testing.problems import LABEL_SETS, random_potentials, random_words
from concord.workers.inference.core.chain import viterbi
from concord.workers.papers.finkel.annealed import solve
from concord.workers.papers.finkel.settings import AnnealedSettings
from tests.support.seeds import over_seeds


def chain_alone(seed: int, tokens: int = 40) -> Problem:
    """A document without constraints, too long for a few sweeps."""
    rng = np.random.default_rng(seed)
    _, starts = random_words(rng, tokens)
    potentials, _ = random_potentials(rng, LABEL_SETS[0], starts, tokens)
    return Problem(potentials, LABEL_SETS[0])


def sampled(problem: Problem, seed: int, **options: float) -> Decoded:
    settings = AnnealedSettings.model_validate(options)
    return solve(problem, config=settings, rng=np.random.default_rng(seed))


@over_seeds(stay=1, many=12)
def test_few_sweeps_stay_far_below_viterbi_and_many_come_near_it(seed: int) -> None:
    problem = chain_alone(seed)
    top = problem.score(viterbi(problem.potentials)).objective
    few, many = sampled(problem, seed, sweeps=1, temperature=50.0), sampled(problem, seed, sweeps=2000)
    assert few.objective < top - 10.0
    assert few.status is Status.FEASIBLE
    assert many.objective > top - 1.0  # of one draw in 160 a second-best answer, 0.15 nats below
    assert many.objective == pytest.approx(top) or seed
    assert few.bound == many.bound == pytest.approx(top)


def test_seeds_are_other_runs() -> None:
    problem = chain_alone(9)
    runs = {sampled(problem, seed, sweeps=2, temperature=20.0).labels.tobytes() for seed in range(6)}
    assert len(runs) == 6
