"""The registry of engines, by name, and the one way to run an engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from concord.schemas.decoded import Budget, Decoded
from concord.schemas.errors import UsageError
from concord.schemas.labels import Labels
from concord.schemas.names import unknown
from concord.schemas.problem import Problem
from concord.schemas.settings import EngineSettings
from concord.workers.inference.core.engine import UNLIMITED, Solver, document_rng
from concord.workers.inference.settings import (
    AstarSettings,
    BeamSettings,
    CertifySettings,
    CpSatSettings,
    DiscrepancySettings,
    GibbsSettings,
    TwoStageSettings,
    WindowSettings,
)
from concord.workers.parts import Group, Registry, an_entry

# Each engine is imported when it runs first: its kernels, and CP-SAT, cost half a second that a list of names can do
# without. The statements are read by `workers.compiling.code`, which would not see a path in a text.


def _viterbi(problem: Problem, **arguments: Any) -> Decoded:
    from concord.workers.inference.chains.viterbi import solve

    return solve(problem, **arguments)


def _constrained_viterbi(problem: Problem, **arguments: Any) -> Decoded:
    from concord.workers.inference.chains.constrained_viterbi import solve

    return solve(problem, **arguments)


def _posterior(problem: Problem, **arguments: Any) -> Decoded:
    from concord.workers.inference.chains.posterior import solve

    return solve(problem, **arguments)


def _window(problem: Problem, **arguments: Any) -> Decoded:
    from concord.workers.inference.chains.window import solve

    return solve(problem, **arguments)


def _gibbs(problem: Problem, **arguments: Any) -> Decoded:
    from concord.workers.inference.sampling.gibbs import solve

    return solve(problem, **arguments)


def _discrepancy(problem: Problem, **arguments: Any) -> Decoded:
    from concord.workers.inference.search.discrepancy import solve

    return solve(problem, **arguments)


def _beam(problem: Problem, **arguments: Any) -> Decoded:
    from concord.workers.inference.search.beam import solve

    return solve(problem, **arguments)


def _astar(problem: Problem, **arguments: Any) -> Decoded:
    from concord.workers.inference.search.astar import solve

    return solve(problem, **arguments)


def _certify(problem: Problem, **arguments: Any) -> Decoded:
    from concord.workers.inference.certify.engine import solve

    return solve(problem, **arguments)


def _two_stage(problem: Problem, **arguments: Any) -> Decoded:
    from concord.workers.inference.two_stage.engine import solve

    return solve(problem, **arguments)


def _cpsat(problem: Problem, **arguments: Any) -> Decoded:
    from concord.workers.inference.cpsat.engine import solve

    return solve(problem, **arguments)


OWN: dict[str, Solver] = {
    "viterbi": Solver(
        _viterbi, EngineSettings, "the best labels under the model alone", exact=False, bounds=False, chance=False
    ),
    "constrained-viterbi": Solver(
        _constrained_viterbi,
        EngineSettings,
        "the best labels that hard rules of one token or edge leave",
        exact=False,
        chance=False,
    ),
    "posterior": Solver(
        _posterior,
        EngineSettings,
        "each token's likeliest label under the model alone, made legal",
        exact=False,
        bounds=False,
        own_aim=True,
        chance=False,
    ),
    "window": Solver(
        _window,
        WindowSettings,
        "dynamic programming, exact where rules look at few neighbouring tokens",
        exact=False,
        chance=False,
    ),
    "gibbs": Solver(_gibbs, GibbsSettings, "annealed Gibbs sampling over the whole document", exact=False),
    "discrepancy": Solver(
        _discrepancy,
        DiscrepancySettings,
        "limited discrepancy search with branch and bound; for comparison with papers",
        exact=True,
        chance=False,
        comparison=True,
    ),
    "beam": Solver(
        _beam,
        BeamSettings,
        "beam search from left to right; for comparison with papers",
        exact=False,
        chance=False,
        comparison=True,
    ),
    "astar": Solver(
        _astar,
        AstarSettings,
        "A* from left to right; for comparison with papers",
        exact=True,
        chance=False,
        comparison=True,
    ),
    "certify": Solver(
        _certify,
        CertifySettings,
        "the best labels, and a proof of how far from the best they can be",
        exact=True,
        certifies=True,
        asks_solver=True,
    ),
    "two-stage": Solver(
        _two_stage,
        TwoStageSettings,
        "the least penalty among labellings near the model's best",
        exact=False,
        bounds=False,
        own_aim=True,
    ),
    "cpsat": Solver(
        _cpsat,
        CpSatSettings,
        "the whole document as one CP-SAT model; an independent check, and slow",
        exact=True,
        asks_solver=True,
        comparison=True,
    ),
    "ilp": Solver(
        _cpsat,
        CpSatSettings,
        "the same as cpsat, by Fersini et al.'s name for it",
        exact=True,
        asks_solver=True,
        comparison=True,
    ),
}
"""The engines of this project, but for those of `workers.papers`. A new one is a file, a settings class, and a line
here that imports the file late."""

SOLVERS: Registry[Solver] = Registry(Group.ENGINES, OWN, an_entry(Solver, EngineSettings))


class EngineError(UsageError):
    """An unknown engine, or options that the engine does not have."""


def solver_named(name: str) -> Solver:
    """The engine with this name. Raises `EngineError` if there is none."""
    if name not in SOLVERS:
        raise EngineError(unknown("engine", name, SOLVERS))
    return SOLVERS[name]


class Decoder(NamedTuple):
    """A way to decode documents: an engine with all its settings, the random seed, and the budget of one document."""

    engine: str
    config: EngineSettings
    seed: int = 0
    budget: Budget = UNLIMITED

    @classmethod
    def of(
        cls, engine: str, options: Mapping[str, Any] | None = None, *, seed: int = 0, budget: Budget = UNLIMITED
    ) -> Decoder:
        """The decoder of an engine by name; options that ``options`` does not name have their defaults.

        Raises `EngineError` for an unknown engine, an unknown option or a value out of range.
        """
        kind = solver_named(engine).settings
        try:
            return cls(engine, kind.model_validate(dict(options or {})), seed, budget)
        except ValidationError as error:
            faults = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            names = ", ".join(kind.model_fields) or "no options"
            raise EngineError(f"options of engine {engine!r}: {faults} (it has {names})") from error

    def __call__(self, problem: Problem, doc_id: str, *, incumbent: Labels | None = None) -> Decoded:
        """The engine's answer: the same for the same problem, id, seed and incumbent, on whatever worker it runs."""
        rng, solve = document_rng(self.seed, doc_id), SOLVERS[self.engine].solve
        return solve(problem, config=self.config, rng=rng, budget=self.budget, incumbent=incumbent)
