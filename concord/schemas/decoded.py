"""Answers of engines: the labelling of one document, its scores, and what is proven of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats1d, Ids1d, Ids2d, Mask1d


class Status(StrEnum):
    """What is proven about an answer."""

    OPTIMAL = "optimal"
    """Proven: no labelling scores higher, within the tolerance the engine states."""
    BY_SOLVER = "optimal-by-solver"
    """No labelling scores higher according to CP-SAT; no bound of concord's own and no certificate confirms it."""
    FEASIBLE = "feasible"
    """A labelling that breaks no hard constraint, found by a method that proves nothing more."""
    TIMEOUT = "timeout"
    """The budget ran out, or the method found nothing feasible; best labelling seen, and a bound that holds."""
    INFEASIBLE = "infeasible"
    """Proven: every labelling breaks a hard constraint."""
    RELAXED = "relaxed"
    """No labelling that keeps the hard constraints was found; the best with these made soft, and its scores."""
    ADOPTED = "adopted"
    """The answer of another program (`concord adopt`), which has no score and no bound."""


class MarginStatus(StrEnum):
    """What is proven about an entity's margin."""

    EXACT = "exact"
    """Proven, within the tolerance the engine states."""
    BY_SOLVER = "exact-by-solver"
    """Exact by the word of CP-SAT."""
    BOUND = "bound"
    """The margin is this, or larger."""


@dataclass(frozen=True, eq=False)
class Confidence:
    """Confidence of the M entities of an answer, in their order.

    - ``probability`` (M,): marginal probability of exactly this span under the local scores; NaN where these allow no
      labelling.
    - ``margin`` (M,): nats by which the best labelling without exactly this span is worse than the answer; inf where
      there is no such labelling.
    - ``status`` (M,): whether the margin is exact or a lower bound.

    Margin and status are NaN and None where the answer breaks a hard constraint.
    """

    probability: Floats1d
    margin: Floats1d | None = None
    status: tuple[MarginStatus | None, ...] = ()


@dataclass(frozen=True, eq=False)
class Ranking:
    """The K best known labellings of a document, best first; all are different, and none breaks a hard constraint.

    - ``labels`` (K, N): the labellings.
    - ``score`` (K,): their scores in nats, descending.
    - ``proven`` (K,): whether the rank is proven: the score is at least the bound, within the stated tolerance.
    - ``bound``: upper bound, in nats, for every labelling that is not listed; −inf where all are listed.
    """

    labels: Ids2d
    score: Floats1d
    proven: Mask1d
    bound: float

    @classmethod
    def none(cls, tokens: int) -> Ranking:
        """Empty ranking, for a document in which every labelling breaks a hard constraint."""
        return cls(np.zeros((0, tokens), np.int32), np.zeros(0), np.zeros(0, np.bool_), -np.inf)

    @property
    def gap(self) -> NDArray[np.float64]:
        """(K,) difference to the best score, in nats."""
        return self.score[:1] - self.score


class Budget(NamedTuple):
    """Limits for one document: wall-clock seconds and deterministic work; None is unlimited.

    Only ``work`` keeps the output the same on every machine, so scheduled runs set that one.
    """

    seconds: float | None = None
    work: int | None = None


class Improvement(NamedTuple):
    """A step of an anytime curve: a better labelling was found."""

    seconds: float
    work: int
    objective: float


@dataclass(frozen=True, eq=False)
class Score:
    """The objective of one labelling, split up, in nats.

    - ``local``: the potentials' share, less the penalties of the model's own rows.
    - ``degree`` (K,): how far each constraint is broken, in its own units.
    - ``penalties`` (K,): penalty of each constraint.
    """

    local: float
    degree: Floats1d
    penalties: Floats1d

    @property
    def penalty(self) -> float:
        """Σ_k ρ_k · degree_k; inf where a hard constraint is broken."""
        return float(self.penalties.sum())

    @property
    def objective(self) -> float:
        """local − penalty; −inf where a hard constraint or a −inf potential is broken."""
        return self.local - self.penalty


@dataclass(frozen=True, eq=False)
class Decoded:
    """A labelling of one document, and what is proven of it.

    - ``labels`` (N,): label ids.
    - ``score``: score of the labelling.
    - ``bound``: nats; no labelling has a higher objective.
    - ``status``: how much is proven.
    - ``work``: effort in the engine's own unit (such as expanded nodes), the same on every machine.
    - ``seconds``: wall-clock time.
    - ``improvements``: the anytime curve, of engines that keep one.
    """

    labels: Ids1d
    score: Score
    bound: float
    status: Status
    work: int = 0
    seconds: float = 0.0
    improvements: tuple[Improvement, ...] = ()

    @property
    def local(self) -> float:
        """The model's share of the objective."""
        return self.score.local

    @property
    def penalty(self) -> float:
        """The constraints' share of the objective."""
        return self.score.penalty

    @property
    def objective(self) -> float:
        """local − penalty."""
        return self.score.objective

    @property
    def gap(self) -> float:
        """How far from optimal this labelling can be, in nats: bound − objective, never below 0."""
        if self.objective == self.bound:
            return 0.0
        return max(0.0, self.bound - self.objective)

    @property
    def certified(self) -> bool:
        """Whether the gap is closed, by concord's own proof or by a solver's."""
        return self.status in (Status.OPTIMAL, Status.BY_SOLVER)
