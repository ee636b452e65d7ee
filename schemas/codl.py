"""Settings and figures of constraint-driven learning; apart, since kernels are named by the settings they import."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from schemas.run import Figures
from schemas.settings import Settings


class MixtureSettings(Settings):
    """What decides a cycle of learning from a pool."""

    labels: tuple[str, ...] = Field((), description="Labels that it knows besides, where few documents lack some.")
    gamma: float = Field(0.9, ge=0, le=1, description="Share of the model of labelled documents in every mixture.")
    mixing: Literal["probabilities", "logarithms"] = Field(
        "probabilities", description="What is mixed: probabilities, or their logarithms, as Chang et al. print it."
    )
    penalties: Literal["learned", "first", "hard"] = Field(
        "learned", description="Constraints weigh what is mixed like the model, what labelled documents say, or all."
    )
    held: float = Field(0.0, ge=0, description="Rows of each constraint imagined to have held, before any is counted.")


class CodlSettings(MixtureSettings):
    """How a hidden Markov model learns on from a pool that it labels under constraints."""

    cycles: int = Field(10, ge=1, le=1000, description="Times that the pool is labelled, at most.")
    change: float = Field(1e-3, ge=0, le=1, description="Ends where a smaller share of the pool's labels changed.")

    @property
    def mixture(self) -> MixtureSettings:
        """These without what ends the cycles."""
        return MixtureSettings(**{name: getattr(self, name) for name in MixtureSettings.model_fields})


class Cycle(Figures):
    """One cycle: the pool labelled, and the model learned from it. The first, 0, is of labelled documents alone.

    ``changed`` is the share of the pool's tokens whose label is another than in the cycle before (1 in the first),
    ``penalty`` (nats) what the constraints charge its labels, ``certified`` the share of its documents with a proof;
    null in cycle 0. ``accuracy`` is the share of tokens of the development corpus that the cycle's model labels right
    under its constraints, null without one.
    """

    number: int
    changed: float | None = None
    penalty: float | None = None
    certified: float | None = None
    accuracy: float | None = None


class CodlReport(Figures):
    """What ``concord codl --json`` prints; ``seconds`` by the clock. The last cycle has the model that was learned."""

    documents: int
    pool: int
    pool_tokens: int
    rejected: int
    cycles: tuple[Cycle, ...]
    settled: bool
    seconds: float
    out: str
    mlflow_run: str
