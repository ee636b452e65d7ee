"""Every engine by name: one line each, so that what can be chosen can be read here."""

from __future__ import annotations

from schemas.errors import UsageError
from schemas.settings import (
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
)
from workers.inference.certify import engine as certify
from workers.inference.chains import constrained_viterbi, viterbi
from workers.inference.core.engine import Solver
from workers.inference.cpsat import engine as cpsat
from workers.inference.sampling import gibbs
from workers.inference.search import anytime, astar, beam, csp, discrepancy, evolution
from workers.inference.two_stage import engine as two_stage

SOLVERS: dict[str, Solver] = {
    "viterbi": Solver(viterbi.solve, EngineSettings, exact=False),
    "constrained-viterbi": Solver(constrained_viterbi.solve, EngineSettings, exact=False),
    "gibbs": Solver(gibbs.solve, GibbsSettings, exact=False),
    "discrepancy": Solver(discrepancy.solve, DiscrepancySettings, exact=True),
    "beam": Solver(beam.solve, BeamSettings, exact=False),
    "astar": Solver(astar.solve, AstarSettings, exact=True),
    "evolution": Solver(evolution.solve, EvolutionSettings, exact=False),
    "anytime": Solver(anytime.solve, AnytimeSettings, exact=False),
    "certify": Solver(certify.solve, CertifySettings, exact=True),
    "csp": Solver(csp.solve, CspSettings, exact=False),
    "two-stage": Solver(two_stage.solve, TwoStageSettings, exact=False),
    "cpsat": Solver(cpsat.solve, CpSatSettings, exact=True),
    "ilp": Solver(cpsat.solve, CpSatSettings, exact=True),  # Fersini et al.'s name for the same programme
}


class EngineError(UsageError):
    """An engine that is not there, or options that it does not have."""


def solver_named(name: str) -> Solver:
    """The engine of that name. Raises `EngineError`."""
    if name not in SOLVERS:
        raise EngineError(f"no engine is called {name!r}; there are {', '.join(SOLVERS)}")
    return SOLVERS[name]
