"""Every engine by name: one line each, so that what can be chosen can be read here; and how one is run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from concord.schemas.decoded import Budget, Decoded
from concord.schemas.errors import UsageError
from concord.schemas.labels import Labels
from concord.schemas.names import unknown
from concord.schemas.problem import Problem
from concord.schemas.settings import (
    AnytimeSettings,
    AstarSettings,
    BeamSettings,
    CertifySettings,
    CpSatSettings,
    CspSettings,
    DiscrepancySettings,
    EngineSettings,
    EvolutionSettings,
    GibbsSettings,
    TwoStageSettings,
    WindowSettings,
)
from concord.workers.inference.certify import engine as certify
from concord.workers.inference.chains import constrained_viterbi, posterior, viterbi, window
from concord.workers.inference.core.engine import UNLIMITED, Solver, document_rng
from concord.workers.inference.sampling import gibbs
from concord.workers.inference.search import anytime, astar, beam, csp, discrepancy, evolution


def _cpsat(problem: Problem, **given: Any) -> Decoded:
    # Half a second that other engines can do without.
    from concord.workers.inference.cpsat import engine as cpsat

    return cpsat.solve(problem, **given)


def _two_stage(problem: Problem, **given: Any) -> Decoded:
    # It is built on the same solver.
    from concord.workers.inference.two_stage import engine as two_stage

    return two_stage.solve(problem, **given)


SOLVERS: dict[str, Solver] = {
    "viterbi": Solver(viterbi.solve, EngineSettings, exact=False, bounds=False),
    "constrained-viterbi": Solver(constrained_viterbi.solve, EngineSettings, exact=False),
    "posterior": Solver(posterior.solve, EngineSettings, exact=False, bounds=False, own_aim=True),
    "window": Solver(window.solve, WindowSettings, exact=False),
    "gibbs": Solver(gibbs.solve, GibbsSettings, exact=False, bounds=False),
    "discrepancy": Solver(discrepancy.solve, DiscrepancySettings, exact=True),
    "beam": Solver(beam.solve, BeamSettings, exact=False),
    "astar": Solver(astar.solve, AstarSettings, exact=True),
    "evolution": Solver(evolution.solve, EvolutionSettings, exact=False, bounds=False),
    "anytime": Solver(anytime.solve, AnytimeSettings, exact=False),
    "certify": Solver(certify.solve, CertifySettings, exact=True, certifies=True, asks_solver=True),
    "csp": Solver(csp.solve, CspSettings, exact=False),
    "two-stage": Solver(_two_stage, TwoStageSettings, exact=False, bounds=False, own_aim=True),
    "cpsat": Solver(_cpsat, CpSatSettings, exact=True, asks_solver=True),
    "ilp": Solver(_cpsat, CpSatSettings, exact=True, asks_solver=True),  # Fersini et al.'s name for the same programme
}


class EngineError(UsageError):
    """An engine that is not there, or options that it does not have."""


def solver_named(name: str) -> Solver:
    """The engine of that name. Raises `EngineError`."""
    if name not in SOLVERS:
        raise EngineError(unknown("engine", name, SOLVERS))
    return SOLVERS[name]


class Decoder(NamedTuple):
    """One way to decode documents: an engine with all its settings, the seed, and the budget of a document."""

    engine: str
    config: EngineSettings
    seed: int = 0
    budget: Budget = UNLIMITED

    @classmethod
    def of(
        cls, engine: str, options: Mapping[str, Any] | None = None, *, seed: int = 0, budget: Budget = UNLIMITED
    ) -> Decoder:
        """An engine by name, with its defaults but for ``options``.

        Raises `EngineError` for an unknown engine, an unknown option and a value out of range.
        """
        kind = solver_named(engine).settings
        try:
            return cls(engine, kind.model_validate(dict(options or {})), seed, budget)
        except ValidationError as error:
            faults = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            known = ", ".join(kind.model_fields) or "no options"
            raise EngineError(f"options of engine {engine!r}: {faults} (it has {known})") from error

    def __call__(self, problem: Problem, doc_id: str, *, incumbent: Labels | None = None) -> Decoded:
        """The engine's answer: the same for the same problem, id, seed and start, wherever it is asked."""
        rng, solve = document_rng(self.seed, doc_id), SOLVERS[self.engine].solve
        return solve(problem, config=self.config, rng=rng, budget=self.budget, incumbent=incumbent)
