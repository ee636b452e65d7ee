"""The Lagrangian bound over rows: never below the optimum, and no label of a better labelling is fixed away."""

from __future__ import annotations

import numpy as np
import pytest

from concord.schemas.problem import Problem
from concord.testing.problems import LABEL_SETS, all_labellings, enumerate_best, random_labelling, random_problem
from concord.workers.inference.core.chain import viterbi
from concord.workers.inference.core.engine import UNLIMITED
from concord.workers.inference.core.incumbent import Search
from concord.workers.inference.numerics import MULTIPLIER_ROUNDING
from concord.workers.inference.relaxation import row_dual
from concord.workers.inference.relaxation.row_dual import dual_bound, prove_rows
from tests.support.seeds import blocks

SEEDS = range(60)


def rows_alone(seed: int) -> Problem:
    return random_problem(np.random.default_rng(seed), labels=LABEL_SETS[seed % 4], rows=True, agreements=False)


def objectives(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    labellings = all_labellings(len(problem), len(problem.labels))
    return labellings, np.array([problem.score(y).objective for y in labellings])


@pytest.mark.parametrize("block", blocks(4))
def test_it_bounds_and_fixes_only_what_it_may(block: int) -> None:
    fixed = 0
    for seed in SEEDS[block::4]:
        problem = rows_alone(seed)
        rng = np.random.default_rng(seed)
        start = random_labelling(rng, problem.labels, problem.potentials.sentence_starts, len(problem))
        allowed = np.isfinite(problem.potentials.unary)
        dual = dual_bound(problem, allowed, start, steps=150, tolerance=1e-6)
        labellings, scores = objectives(problem)
        best = enumerate_best(problem)[1]
        objective = problem.score(dual.labels).objective
        assert dual.bound >= best - 1e-9
        assert ((dual.multipliers >= 0.0) & (dual.multipliers <= problem.rows.weight)).all()
        assert best >= objective >= problem.score(start).objective
        better = labellings[scores > objective + MULTIPLIER_ROUNDING]
        assert all(dual.allowed[np.arange(len(problem)), y].all() for y in better)
        fixed += int((allowed & ~dual.allowed).sum())
    assert fixed > 0


def test_it_is_lower_than_the_local_optimum_and_often_tight() -> None:
    lower = tight = many = 0
    for seed in SEEDS:
        problem = rows_alone(seed)
        search = Search(problem, budget=UNLIMITED, incumbent=None)
        best = enumerate_best(problem)[1]
        if best == -np.inf or not search.loss > 1e-6:
            continue
        dual = dual_bound(problem, np.isfinite(problem.potentials.unary), search.labels, steps=200, tolerance=1e-6)
        many += 1
        lower += dual.bound < search.top - 1e-6
        tight += dual.bound < best + 1e-3
    assert many > 10
    assert lower > 0.8 * many
    assert tight > 0.3 * many


def test_the_proof_meets_brute_force() -> None:
    for seed in SEEDS:
        problem = rows_alone(seed)
        search = Search(problem, budget=UNLIMITED, incumbent=None)
        best = enumerate_best(problem)[1]
        if search.closed:
            continue
        bound = prove_rows(search, states=2_000, tolerance=1e-6)
        assert search.objective <= best + 1e-9
        if best == -np.inf:
            assert bound == -np.inf
        else:
            assert best - 1e-9 <= bound <= best + 1e-6
            assert search.objective == pytest.approx(best, abs=1e-6)


def test_steps_are_those_that_were_taken() -> None:
    whole = early = 0
    for seed in SEEDS:
        problem = rows_alone(seed)
        start = random_labelling(
            np.random.default_rng(seed), problem.labels, problem.potentials.sentence_starts, len(problem)
        )
        allowed = np.isfinite(problem.potentials.unary)
        for steps in (7, 57):
            taken = dual_bound(problem, allowed, start, steps=steps, tolerance=1e-6).steps
            assert 1 <= taken <= steps
            whole += taken == steps
        if not problem.rows.degree(viterbi(problem.potentials)).any():
            # No row is broken: no multiplier moves, and the first labelling is the best.
            assert taken == 1
            early += 1
    assert whole > 10
    assert early > 10


def test_a_search_that_is_cut_short_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_dual, "FEW_STEPS", 1)
    monkeypatch.setattr(row_dual, "ROUND_STEPS", 1)
    behind = 0
    for seed in SEEDS:
        problem = rows_alone(seed)
        search = Search(problem, budget=UNLIMITED, incumbent=None)
        best = enumerate_best(problem)[1]
        if search.closed or best == -np.inf:
            continue
        assert prove_rows(search, states=1, tolerance=1e-6) >= best - 1e-9
        behind += search.objective < best - 1e-6
    assert behind > 0
