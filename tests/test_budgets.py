"""What every engine keeps of a budget: little more work than it allows, and an answer and a bound that hold."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from concord.schemas.decoded import Budget, Decoded, Status
from concord.schemas.labels import Labels
from concord.schemas.problem import ANY, LinearRows, Problem
from concord.schemas.settings import EngineSettings
from concord.workers.inference.core.engine import UNLIMITED, Engine, document_rng
from concord.workers.inference.core.incumbent import Search
from concord.workers.inference.registry import SOLVERS
from concord.workers.inference.sampling import gibbs
from concord.workers.papers.stokman.settings import EvolutionSettings
from tests.support.made_repeats import repeated

TOKENS = 200
BIG = repeated(TOKENS)

NOTHING, MILLISECOND, PASS = 0, 1, TOKENS
NAME = 10 * TOKENS
"""All mentions of a word under each type at once."""
ASCENT = 100 * TOKENS
"""One step of an ascent, which solves all sentences and works out how often the word may have each type."""
POPULATION = EvolutionSettings().population + 1
LOOK = 2_000

STEPS = {
    "viterbi": PASS,
    "constrained-viterbi": PASS,
    "window": PASS,
    "posterior": PASS,
    "gibbs": NAME,
    "annealed": NAME,
    "discrepancy": NOTHING,
    "beam": NOTHING,
    "astar": NOTHING,
    "evolution": POPULATION,
    "anytime": POPULATION,
    "certify": ASCENT,
    "csp": NOTHING,
    "two-stage": MILLISECOND,
    "cpsat": MILLISECOND,
    "ilp": MILLISECOND,
}
"""Units of its own work by which each engine may exceed a budget: what it cannot leave half done."""

WHOLE = ("viterbi", "constrained-viterbi", "window", "posterior", "beam")
"""Engines that may be done within any budget: in one pass, or where nothing in the beam can better the start."""

every_engine = pytest.mark.parametrize("engine", list(SOLVERS))


def with_rows(problem: Problem) -> Problem:
    """No more than three tokens may begin a person, and three an organisation: outside labels alone keep that."""
    count = len(problem)
    rows = LinearRows(
        np.array([0, count, 2 * count], np.int64),
        np.tile(np.arange(count, dtype=np.int32), 2),
        np.full(2 * count, ANY, np.int32),
        np.repeat(problem.labels.opening[:2], count).astype(np.int32),
        np.ones(2 * count),
        np.full(2, 3.0),
        np.full(2, np.inf),
        np.zeros(2, np.int32),
    )
    return replace(problem, rows=rows, constraint_names=("most", *problem.constraint_names[1:]))


def outside(problem: Problem) -> Labels:
    """Nothing labelled."""
    label = int(np.flatnonzero(problem.labels.type_of < 0)[0])
    return np.full(len(problem), label, np.int32)


def run(solve: Engine, config: EngineSettings, problem: Problem, budget: Budget, start: Labels | None) -> Decoded:
    return solve(problem, config=config, rng=document_rng(0, "budget"), budget=budget, incumbent=start)


def check(decoded: Decoded, problem: Problem, *, work: int, start: Labels, best: float) -> None:
    """Work, status, answer and bound of an engine that was given ``start`` and ``work``, its own step included."""
    assert decoded.work <= work
    assert decoded.status in (Status.TIMEOUT, Status.FEASIBLE, Status.OPTIMAL, Status.BY_SOLVER)
    assert decoded.objective == problem.score(decoded.labels).objective
    assert problem.score(start).objective <= decoded.objective <= decoded.bound
    assert decoded.bound >= best
    if decoded.certified:
        assert decoded.objective >= best - 1e-6


@pytest.fixture(scope="module")
def problems() -> list[tuple[Problem, float]]:
    """Problems without and with hard rows, each with the objective of a good labelling."""
    found = (BIG, with_rows(BIG))
    config = SOLVERS["gibbs"].settings()
    return [(p, run(gibbs.solve, config, p, UNLIMITED, outside(p)).objective) for p in found]


@every_engine
@pytest.mark.parametrize("work", [1, 50, 2_000])
def test_work_ends_every_engine(engine: str, work: int, problems: list[tuple[Problem, float]]) -> None:
    for problem, best in problems:
        solver, start = SOLVERS[engine], outside(problem)
        work = min(work, 50) if STEPS[engine] == MILLISECOND else work
        decoded = run(solver.solve, solver.settings(), problem, Budget(work=work), start)
        check(decoded, problem, work=work + STEPS[engine], start=start, best=best)
        if engine not in WHOLE:
            assert decoded.status is Status.TIMEOUT


class Clock:
    """Stands still for so many looks, then shows that the time is up, and counts the looks after that."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def __call__(self) -> float:
        self.looks -= 1
        return 0.0 if self.looks >= 0 else 1e6


def timed(solve: Engine, config: EngineSettings, problem: Problem, looks: int, start: Labels) -> Decoded:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "perf_counter", Clock(looks))
        return run(solve, config, problem, Budget(seconds=1.0), start)


@every_engine
def test_seconds_end_every_engine(engine: str, problems: list[tuple[Problem, float]]) -> None:
    """What is done after the time is up is at most what lies between two looks at the clock."""
    for problem, best in problems:
        solver, start = SOLVERS[engine], outside(problem)
        decoded = timed(solver.solve, solver.settings(), problem, 1, start)
        check(decoded, problem, work=max(STEPS[engine], LOOK), start=start, best=best)


@pytest.mark.parametrize("looks", [8, 16, 32, 64])
def test_certify_ends_wherever_its_time_is_up(looks: int, problems: list[tuple[Problem, float]]) -> None:
    for problem, best in problems:
        solver, start = SOLVERS["certify"], outside(problem)
        decoded = timed(solver.solve, solver.settings(), problem, looks, start)
        check(decoded, problem, work=2_000_000_000, start=start, best=best)


def never_ends(problem: Problem, *, budget: Budget, incumbent: Labels | None, **_: object) -> Decoded:
    """An engine that counts its work and does not look at its budget."""
    search = Search(problem, budget=UNLIMITED, incumbent=incumbent)
    search.work = 1_000_000
    return search.decoded(0.0)


def boasts(problem: Problem, *, budget: Budget, incumbent: Labels | None, **_: object) -> Decoded:
    """An engine that stops in time and says that nothing is better than what it has."""
    search = Search(problem, budget=budget, incumbent=incumbent)
    return search.decoded(search.loss)


def forgets(problem: Problem, *, budget: Budget, incumbent: Labels | None, **_: object) -> Decoded:
    """An engine that answers with the Viterbi labels, whatever it was given."""
    del incumbent
    return Search(problem, budget=budget, incumbent=None).decoded(0.0)


@pytest.mark.parametrize("solve", [never_ends, boasts, forgets])
@pytest.mark.parametrize("limit", ["work", "seconds"])
def test_an_engine_that_keeps_none_of_this_is_found(
    solve: Callable[..., Decoded], limit: str, problems: list[tuple[Problem, float]]
) -> None:
    problem, best = problems[1]
    start = outside(problem)
    if limit == "work":
        decoded = run(solve, EngineSettings(), problem, Budget(work=50), start)
    else:
        decoded = timed(solve, EngineSettings(), problem, 1, start)
    with pytest.raises(AssertionError):
        check(decoded, problem, work=LOOK, start=start, best=best)


def test_every_engine_says_what_its_step_is() -> None:
    assert set(STEPS) == set(SOLVERS)
