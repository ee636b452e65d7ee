"""Options of the engines and of the trainer. Importing this imports no engine."""

from __future__ import annotations

from pydantic import Field

from concord.schemas.settings import EngineSettings
from concord.workers.inference.settings import DiscrepancySettings, SearchSettings
from concord.workers.models.settings import CountingSettings


class EvolutionSettings(SearchSettings):
    """Evolutionary search; defaults of Stokman (2011) table 6. Work is in labellings evaluated."""

    work: int | None = Field(
        20_000, ge=1, description="Limit of work, unless the run sets one; null breeds without end."
    )
    population: int = Field(30, ge=2, description="μ and λ: number of individuals, and of offspring in a generation.")
    mutation: float = Field(0.25, gt=0, le=1, description="β: fraction of offspring that mutate.")
    shift: float = Field(
        0.9, ge=0, le=1, description="ω: fraction of mutations that shift a border; the others flip a section."
    )
    pressure: float = Field(1.5, ge=1, le=2, description="s: selection pressure; 1 ignores rank.")
    hard_weight: float = Field(2.0, ge=0, description="γs: price of a hard constraint at first, in nats a unit.")
    hard_weight_step: float = Field(1.0, ge=0, description="γδ: how much that price rises in each generation.")
    branching: int = Field(3, ge=1, description="Number of labels tried for a token in the best-first start.")
    start_nodes: int = Field(20_000, ge=1, description="Largest number of nodes that the best-first start expands.")


class AnytimeSettings(EngineSettings):
    """Discrepancy search up to a length, evolution above; Stokman (2011) table 6."""

    tokens: int = Field(
        60, ge=0, description="Longest document for discrepancy search, in tokens; evolution takes longer ones."
    )
    discrepancy: DiscrepancySettings = DiscrepancySettings()
    evolution: EvolutionSettings = EvolutionSettings()


class Hmm2Settings(CountingSettings):
    """Options of counting a second-order hidden Markov model."""
