"""The engine that solves a whole document as one CP-SAT model.

The model is that of Fersini et al. (2014) eq. 11–16, with rows and span pairs (`lattice`).
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
from ortools.sat.python import cp_model

from concord.schemas.decoded import Budget, Decoded, Improvement, Status
from concord.schemas.labels import Labels
from concord.schemas.problem import Problem
from concord.workers.inference.core.engine import UNLIMITED
from concord.workers.inference.core.folding import on_folded
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.strict_twin import on_strict_twins
from concord.workers.inference.cpsat.effort import UNITS_A_SECOND
from concord.workers.inference.cpsat.lattice import LatticeModel, build_model
from concord.workers.inference.settings import CpSatSettings


@dataclass(frozen=True, eq=False)
class LatticeSolution:
    """CP-SAT's answer for a model.

    - ``labels``: the best labels (N,), or None if there are none.
    - ``bound``: upper bound of all labellings, in nats.
    - ``infeasible``: is it proven that there is no labelling?
    - ``work``: milliseconds of deterministic time.
    - ``improvements``: those in the order they came, in seconds since ``solve_model`` was called.
    """

    labels: Labels | None
    bound: float
    infeasible: bool
    work: int
    improvements: tuple[Improvement, ...]


@on_folded
@on_strict_twins
def solve(
    problem: Problem,
    *,
    config: CpSatSettings,
    rng: np.random.Generator,
    budget: Budget = UNLIMITED,
    incumbent: Labels | None = None,
) -> Decoded:
    """The best labelling if CP-SAT ends in time; otherwise the best one seen, with a bound that holds.

    `Status.BY_SOLVER` means that the gap, integer rounding included, is at most ``config.tolerance`` nats. Work is
    counted in milliseconds of CP-SAT's deterministic time.
    """
    started = time.perf_counter()
    prepared = Prepared.of(problem)
    bound = prepared.top
    if bound == -np.inf:
        return problem.decoded(prepared.viterbi, bound=bound, status=Status.INFEASIBLE, score=prepared.first)
    best, score = prepared.better_of(incumbent)
    objective = score.objective
    improvements = [Improvement(time.perf_counter() - started, 0, objective)]
    solution = None
    if 0 < len(problem) <= config.most_tokens and bound - objective > config.tolerance:
        lattice = build_model(problem, start=best, tolerance=config.tolerance / 2.0)
        before = time.perf_counter() - started
        solution = solve_model(
            lattice,
            problem,
            tolerance=config.tolerance / 2.0,
            deterministic_seconds=_limit(config, budget),
            seconds=_seconds_left(budget, started),
            seed=int(rng.integers(2**31)),
        )
        bound = min(bound, solution.bound)
        better = [step for step in solution.improvements if step.objective > objective]
        improvements += [step._replace(seconds=step.seconds + before) for step in better]
        if solution.labels is not None:
            candidate = problem.score(solution.labels)
            if candidate.objective > objective:
                best, score, objective = solution.labels, candidate, candidate.objective
    return problem.decoded(
        best,
        bound=bound,
        status=_status(bound - objective, solution, config.tolerance),
        work=solution.work if solution else 0,
        seconds=time.perf_counter() - started,
        improvements=improvements,
        score=score,
    )


def solve_model(
    lattice: LatticeModel,
    problem: Problem,
    *,
    tolerance: float,
    deterministic_seconds: float,
    seed: int,
    seconds: float | None = None,
) -> LatticeSolution:
    """Runs CP-SAT on a lattice with one worker, until the gap is at most ``tolerance`` nats or a limit is met.

    A limit of ``seconds`` of wall clock makes the answer depend on the machine; None is unlimited.
    """
    solver = sound_solver(seed)
    solver.parameters.max_deterministic_time = deterministic_seconds
    solver.parameters.absolute_gap_limit = tolerance * lattice.scale
    solver.parameters.relative_gap_limit = 0.0
    if seconds is not None:
        solver.parameters.max_time_in_seconds = max(1e-3, seconds)
    watch = _ImprovementRecorder(lattice, problem)
    status = solver.solve(lattice.model, watch)
    answered = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    labels = lattice.labels_of(lambda v: solver.response_proto.solution[v] == 1) if answered else None
    bound = lattice.offset - solver.best_objective_bound / lattice.scale if answered else math.inf
    if status == cp_model.INFEASIBLE:
        bound = -math.inf
    if status == cp_model.MODEL_INVALID:
        raise AssertionError(lattice.model.validate())
    return LatticeSolution(
        labels,
        bound,
        status == cp_model.INFEASIBLE,
        math.ceil(solver.response_proto.deterministic_time * UNITS_A_SECOND),
        tuple(watch.improvements),
    )


def sound_solver(seed: int) -> cp_model.CpSolver:
    """CP-SAT with the parameters under which its bounds are trusted; all models here are solved with them."""
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.linearization_level = 2
    # Probing and symmetry took most of the time and proved nothing more on lattices of 60 to 400 tokens.
    solver.parameters.cp_model_probing_level = 0
    solver.parameters.symmetry_level = 0
    # Inclusion between constraints is unsound in 9.15 (google/or-tools#5293): with it, optima are false.
    solver.parameters.presolve_inclusion_work_limit = 0
    solver.parameters.random_seed = seed
    return solver


class _ImprovementRecorder(cp_model.CpSolverSolutionCallback):
    """Records every labelling that is better than those before."""

    def __init__(self, lattice: LatticeModel, problem: Problem) -> None:
        super().__init__()
        self.lattice, self.problem = lattice, problem
        self.started = time.perf_counter()
        self.improvements: list[Improvement] = []

    def on_solution_callback(self) -> None:
        """Scores a new solution's labelling, because CP-SAT's own objective is rounded. CP-SAT calls it."""
        labels = self.lattice.labels_of(self.SolutionBooleanValue)
        objective = self.problem.score(labels).objective
        if not self.improvements or objective > self.improvements[-1].objective:
            work = math.ceil(self.DeterministicTime() * UNITS_A_SECOND)
            self.improvements.append(Improvement(time.perf_counter() - self.started, work, objective))


def _limit(config: CpSatSettings, budget: Budget) -> float:
    return config.deterministic_seconds if budget.work is None else budget.work / UNITS_A_SECOND


def _seconds_left(budget: Budget, started: float) -> float | None:
    return None if budget.seconds is None else budget.seconds - (time.perf_counter() - started)


def _status(gap: float, solution: LatticeSolution | None, tolerance: float) -> Status:
    if solution is not None and solution.infeasible:
        return Status.INFEASIBLE
    closed = Status.OPTIMAL if solution is None else Status.BY_SOLVER
    return closed if gap <= tolerance else Status.TIMEOUT
