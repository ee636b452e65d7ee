"""What an engine is: a function from a ground problem to a decoded document."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple, Protocol

import numpy as np

from concord.schemas.decoded import Budget, Decoded, Status
from concord.schemas.labels import Labels
from concord.schemas.problem import Problem
from concord.schemas.settings import EngineSettings
from concord.workers.inference.numerics import ROUNDING

UNLIMITED = Budget()


class Engine(Protocol):
    """Labels one document."""

    def __call__(
        self,
        problem: Problem,
        *,
        config: Any,
        rng: np.random.Generator,
        budget: Budget = UNLIMITED,
        incumbent: Labels | None = None,
    ) -> Decoded:
        """Labels ``problem`` with ``config``, an instance of the engine's own settings class.

        ``rng`` is the only source of chance, see `document_rng`. ``incumbent`` (N,) is a labelling
        to start from. The answer is always scored by `Problem.score`; when ``budget`` runs out it
        is the best labelling seen.
        """
        ...


class Solver(NamedTuple):
    """A registry entry: the engine, its settings class, and one line of help.

    ``exact``: without a limit it proves that what it returns is optimal. ``certifies``: its bounds come from the
    relaxations that `workers.certificates.writer` can write down. ``bounds``: it may prove more than the local optimum
    does, which bounds every labelling. ``asks_solver``: some answers rest on CP-SAT's word. ``own_aim``: it looks for
    another optimum than the score's, and may answer with less than the Viterbi labels score.
    """

    solve: Engine
    settings: type[EngineSettings]
    summary: str
    exact: bool
    certifies: bool = False
    bounds: bool = True
    asks_solver: bool = False
    own_aim: bool = False


def proven(objective: float, bound: float, *, otherwise: Status) -> Status:
    """What a bound proves of an objective (both nats), or ``otherwise`` where it leaves a gap.

    A labelling that breaks a hard constraint is never `Status.FEASIBLE`: the search gave up.
    """
    if bound == -np.inf:
        return Status.INFEASIBLE
    if objective == -np.inf:
        return Status.TIMEOUT
    return Status.OPTIMAL if objective >= bound - ROUNDING else otherwise


def document_rng(seed: int, doc_id: str) -> np.random.Generator:
    """The random stream of one document: the same on every worker, in any order, after any retry."""
    digest = hashlib.blake2b(doc_id.encode(), digest_size=16).digest()
    return np.random.default_rng([seed, *np.frombuffer(digest, np.uint32).tolist()])
