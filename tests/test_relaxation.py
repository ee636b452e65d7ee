"""The relaxation's bound, and what it strikes out, against enumeration and against CP-SAT."""

from __future__ import annotations

import numpy as np
import pytest

from schemas.decoded import Status
from schemas.settings import CpSatSettings
from tests.oracle import all_labellings, enumerate_best, random_problem
from tests.test_certify import names_in_sentences
from workers.inference import cpsat
from workers.inference.chain import viterbi, viterbi_score
from workers.inference.relaxation import relax


@pytest.mark.parametrize("seed", range(60))
def test_the_bound_holds_and_no_better_labelling_is_struck_out(seed: int) -> None:
    problem = random_problem(np.random.default_rng(seed))
    start = viterbi(problem.potentials)
    if problem.score(start).objective == -np.inf:
        start = enumerate_best(problem)[0]
    if problem.score(start).objective == -np.inf:
        pytest.skip("no labelling is possible")
    relaxed = relax(problem, start)
    best = enumerate_best(problem)[1]
    reached = problem.score(relaxed.labels).objective
    assert problem.score(start).objective <= reached <= best + 1e-9
    assert relaxed.bound >= best - 1e-9
    possible = np.isfinite(relaxed.problem.potentials.unary)
    for labels in all_labellings(len(problem), len(problem.labels)):
        if problem.score(labels).objective > reached + 1e-6:
            assert possible[np.arange(len(problem)), labels].all()


@pytest.mark.parametrize("seed", range(8))
def test_the_bound_is_close_where_names_conflict(seed: int) -> None:
    problem = names_in_sentences(seed, 5)
    start = viterbi(problem.potentials)
    exact = cpsat.solve(problem, config=CpSatSettings(deterministic_seconds=60.0), rng=np.random.default_rng(0))
    assert exact.status is Status.OPTIMAL
    relaxed = relax(problem, start)
    assert relaxed.bound >= exact.objective - 1e-5
    # Without prices the bound is the local optimum; prices must win back most of what agreement costs.
    assert viterbi_score(problem.potentials) - relaxed.bound > 0.5 * (
        viterbi_score(problem.potentials) - exact.objective
    )
