"""The contract of an engine: a function from a ground problem to a decoded document."""

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
    """A function that labels one document."""

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

        ``rng`` is the only source of chance, see `document_rng`. ``incumbent`` (N,) is a labelling to start from. The
        answer is always scored by `Problem.score`. When ``budget`` runs out, the answer is the best labelling seen.
        """
        ...


class Solver(NamedTuple):
    """A registry entry: the engine, its settings class, one line of help, and what the engine promises.

    - ``exact``: without a limit, it proves that its answer is optimal.
    - ``certifies``: its bounds come from relaxations that `workers.certificates.writer` can write down.
    - ``bounds``: its bound can be tighter than the local optimum, which bounds every labelling anyway.
    - ``asks_solver``: some of its answers rest on CP-SAT's word.
    - ``chance``: it draws from ``rng``; if not, every seed gives the same answer.
    - ``own_aim``: its answer may score less than the Viterbi labels: it optimises something else, or ignores them.
    - ``comparison``: it stands beside a paper's figures, or checks other engines; users would choose another.
    """

    solve: Engine
    settings: type[EngineSettings]
    summary: str
    exact: bool
    certifies: bool = False
    bounds: bool = True
    asks_solver: bool = False
    own_aim: bool = False
    chance: bool = True
    comparison: bool = False


def proven(objective: float, bound: float, *, otherwise: Status) -> Status:
    """The status that a bound proves for an objective (both in nats); ``otherwise`` where a gap is left.

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
