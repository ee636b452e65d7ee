"""Two-stage inference: Fersini et al. (2014) eq. 22–30, by prices (`price`) and by CP-SAT.

Stage one is Viterbi. Stage two minimises the penalty over labellings with a local score near the optimum (eq. 23). The
paper writes this condition as local ≥ τ · V, which turns round if V is negative, and depends on the normalisation of
the potentials. Here scores count from the worst possible labelling:

    local(y) − W ≥ τ · (V − W),    W = the least local score of any possible labelling,

so τ = 1 allows only Viterbi optima, τ = 0 any possible labelling, and adding a constant to a token's potentials changes
nothing. Of the labellings with the least penalty the one with the best local score is returned. A broken row costs by
its degree, or once, as in the paper (`violations`).

The local score is that of the potentials: a model's own rows count as constraints here.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
from concord.schemas.decoded import Budget, Decoded
from concord.schemas.labels import Labels
from concord.schemas.potentials import Potentials
from concord.schemas.problem import Problem
from concord.workers.inference.core.chain import viterbi_score
from concord.workers.inference.core.engine import UNLIMITED
from concord.workers.inference.core.incumbent import Search
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.strict_twin import on_strict_twins
from concord.workers.inference.cpsat.effort import UNITS_A_SECOND
from concord.workers.inference.cpsat.engine import LatticeSolution, solve_model
from concord.workers.inference.cpsat.lattice import build_model
from concord.workers.inference.numerics import UNIT_SLACK
from concord.workers.inference.settings import TwoStageSettings
from concord.workers.inference.two_stage.price import Band
from concord.workers.inference.two_stage.violations import Violations


class _Stages:
    """The CP-SAT models of the second stage, each solved for one of its objectives, within one budget."""

    def __init__(self, search: Search, violations: Violations, config: TwoStageSettings, seed: int) -> None:
        self.search, self.violations, self.config, self.seed = search, violations, config, seed
        self.solving = 0
        self.finished = True

    def build(self, start: Labels, allowed: NDArray[np.bool_] | None = None) -> None:
        """Builds a model of the labels ``allowed`` (N, L), hinted with ``start`` (N,)."""
        problem, tolerance = self.search.problem, self.config.tolerance / 2.0
        once = self.violations.once
        lattice = build_model(problem, start=start, allowed=allowed, tolerance=tolerance, once=once)
        self.lattice = replace(lattice, offset=0.0)
        self.offset = lattice.offset
        objective = lattice.model.proto.objective
        total = dict(zip(list(objective.vars), list(objective.coeffs), strict=True))
        self.local = lattice.local
        self.penalty = {v: c - self.local.get(v, 0) for v, c in total.items() if c > self.local.get(v, 0)}

    def at_most(self, costs: dict[int, int], nats: float) -> None:
        """Adds an upper bound of ``nats`` on ``costs``, loose by less than the rounding of the model."""
        constraint = self.lattice.model.proto.constraints.add()
        constraint.linear.vars.extend(list(costs))
        constraint.linear.coeffs.extend(list(costs.values()))
        constraint.linear.domain.extend([0, math.floor(nats * self.lattice.scale + UNIT_SLACK)])

    def least(self, costs: dict[int, int]) -> LatticeSolution:
        """Solves for the least of ``costs``; ``finished`` becomes False if the budget ended the search."""
        objective = self.lattice.model.proto.objective
        objective.vars.clear()
        objective.coeffs.clear()
        objective.vars.extend(list(costs))
        objective.coeffs.extend(list(costs.values()))
        seconds, work = self.search.budget
        own = self.config.deterministic_seconds * UNITS_A_SECOND - self.solving
        units = own if work is None else work - self.search.work
        tolerance = self.config.tolerance / 2.0
        solution = solve_model(
            self.lattice,
            self.search.problem,
            tolerance=tolerance,
            deterministic_seconds=max(1.0, units) / UNITS_A_SECOND,
            seed=self.seed,
            seconds=None if seconds is None else seconds - self.search.seconds,
        )
        self.search.work += solution.work
        self.solving += solution.work
        self.finished &= solution.infeasible or (solution.labels is not None and self._solved(solution, costs))
        return solution

    def _solved(self, solution: LatticeSolution, costs: dict[int, int]) -> bool:
        """Is the labelling's value within the tolerance of the bound on ``costs``?"""
        assert solution.labels is not None
        local = self.search.problem.potentials.score(solution.labels)
        value = self.offset - local if costs is self.local else self.violations.penalty(solution.labels)
        return value <= -solution.bound + 2.0 * self.config.tolerance


@on_strict_twins
def solve(
    problem: Problem,
    *,
    config: TwoStageSettings,
    rng: np.random.Generator,
    budget: Budget = UNLIMITED,
    incumbent: Labels | None = None,
) -> Decoded:
    """The labelling of Fersini's programme, exact within ``config.tolerance`` nats.

    The status is `Status.FEASIBLE` or better then; `Status.TIMEOUT` says that CP-SAT was stopped. The objective differs
    from that of `Problem.score`, which always charges by the degree. So the answer may score below the Viterbi
    labelling, and an ``incumbent`` that scores higher by `Problem.score` is returned in its place. Hard constraints
    come first: if no labelling near the optimum keeps them, the bound on the local score is loosened just so far that
    one does. If all constraints are rows, prices answer most documents and prune the others. Work is in milliseconds of
    CP-SAT's deterministic time, and in subgradient steps and nodes for the prices.
    """
    search = Search(problem, budget=budget, incumbent=None)
    if search.closed or len(problem) > config.most_tokens:
        return _answer(search, search.viterbi, incumbent, finished=search.closed)
    band = (1.0 - config.tau) * (search.top - worst_score(problem.potentials))
    start = search.viterbi
    violations = Violations(search.problem, config.violations == "once")
    stages = _Stages(search, violations, config, int(rng.integers(2**31)))
    if search.objective == -np.inf:
        stages.build(start)
        nearest = stages.least(stages.local)
        if nearest.infeasible:
            return search.decoded(np.inf)
        if nearest.labels is None or not stages.finished:
            return _answer(search, start if nearest.labels is None else nearest.labels, incumbent, finished=False)
        band, start = max(band, search.top - problem.potentials.score(nearest.labels)), nearest.labels
    near = _Near(search, violations, config.tolerance, start, band)
    if near.proven or search.spent:
        return _answer(search, near.labels, incumbent, finished=near.proven)
    best = _second_stage(stages, near)
    return _answer(search, best, incumbent, finished=stages.finished)


class _Near:
    """Labellings within ``width`` nats of the local optimum: the best one known, and the labels of others."""

    def __init__(self, search: Search, violations: Violations, tolerance: float, start: Labels, band: float) -> None:
        self.labels, self.width, self.tolerance, self.proven = start, band, tolerance, False
        self.loss = search.top - _document_scores(search.problem)
        self.priced = None if search.problem.agreements else Band(search, violations, start, band, tolerance)
        if self.priced is not None:
            self.priced.narrow()
            self.labels, self.proven = self.priced.best.labels, self.priced.proven

    def allowed(self) -> NDArray[np.bool_]:
        """(N, L) mask of the labels of all labellings in the band that cost no more than the best known."""
        near: NDArray[np.bool_] = self.loss <= self.width + self.tolerance
        return near if self.priced is None else near & self.priced.allowed()

    def narrow_to(self, labels: Labels, loss: float) -> None:
        """Restricts the band to labellings that cost no more than ``labels`` (N,) and lose at most ``loss`` nats."""
        self.labels, self.width = labels, loss
        if self.priced is not None:
            self.priced.narrow_to(labels)


def worst_score(potentials: Potentials) -> float:
    """W: the least local score of any possible labelling, in nats."""
    unary = np.where(np.isfinite(potentials.unary), -potentials.unary, -np.inf)
    transition = np.where(np.isfinite(potentials.transition), -potentials.transition, -np.inf)
    return -viterbi_score(Potentials(unary, transition, potentials.sentence_starts))


def _document_scores(problem: Prepared) -> Floats:
    """(N, L) best local score of a labelling of the whole document with y_t = l, in nats."""
    best = problem.best_marginals
    scores: Floats = problem.max_marginals + (best[problem.potentials.sentence_starts].sum() - best)[:, None]
    return scores


def _second_stage(stages: _Stages, near: _Near) -> Labels:
    """The labels (N,) with the least penalty within the band and, at that penalty, the best local score."""
    search, tolerance = stages.search, stages.config.tolerance
    stages.build(near.labels, near.allowed())
    stages.at_most(stages.local, near.width + stages.offset - search.top + tolerance / 2.0)
    first = stages.least(stages.penalty)
    if first.labels is None or not stages.finished:
        return near.labels if first.labels is None else first.labels
    penalty = stages.violations.penalty(first.labels)
    near.narrow_to(first.labels, search.top - search.problem.potentials.score(first.labels))
    stages.build(near.labels, near.allowed())
    stages.at_most(stages.penalty, penalty)
    second = stages.least(stages.local)
    if second.labels is None or stages.violations.penalty(second.labels) > penalty + tolerance:
        return first.labels
    return second.labels


def _answer(search: Search, labels: Labels, incumbent: Labels | None, *, finished: bool) -> Decoded:
    """The labelling found, or the incumbent if that scores higher, as a decoded document."""
    search.restart(labels)
    if incumbent is not None:
        search.offer(incumbent)
    return search.decoded(0.0, cut_short=not finished)
