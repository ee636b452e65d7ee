"""The engines' settings: default, range and meaning of each option. Importing this imports no engine."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from concord.schemas.settings import (
    LARGEST_TOLERANCE,
    EngineSettings,
)
from concord.workers.inference.numerics import TOLERANCE


class GibbsSettings(EngineSettings):
    """Annealed Gibbs sampling. Work is counted in labels, spans and occurrences visited."""

    work: int | None = Field(
        1_000_000_000, ge=1, description="Limit of work, unless the run sets one; null samples to the end."
    )
    sweeps: int = Field(100, ge=1, description="Number of sweeps over the document, for each chain.")
    chains: int = Field(1, ge=1, description="Number of independent chains; the best labelling of all is the answer.")
    start: Literal["viterbi", "random"] = Field("viterbi", description="Labelling that the first chain starts from.")
    temperature: float = Field(1.0, gt=0, description="Temperature c of the first sweep; it falls linearly to 0.")
    cooling: Literal["linear", "none"] = Field(
        "linear", description="Cooling schedule; 'none' keeps the temperature: plain sampling."
    )
    slot_loss: float = Field(
        10.0, ge=0, description="Largest loss, in nats, of a span that the sampler may set as a whole."
    )
    hard_weight: float = Field(30.0, gt=0, description="Price of a hard constraint while sampling, in nats a unit.")
    sweeps_a_check: int = Field(20, ge=1, description="Number of sweeps between looks at the best labelling.")
    settle: bool = Field(True, description="Local search from the best labelling seen: try each name under each type.")


class CpSatSettings(EngineSettings):
    """The whole lattice as one CP-SAT model. Work is in milliseconds of CP-SAT's deterministic time."""

    deterministic_seconds: float = Field(
        20.0, gt=0, description="Limit of CP-SAT's deterministic time, in seconds; a limit of work overrides it."
    )
    tolerance: float = Field(
        TOLERANCE, gt=0, le=LARGEST_TOLERANCE, description="Largest gap, in nats, at which an answer counts as optimal."
    )
    most_tokens: int = Field(
        5_000,
        ge=1,
        description="Longest document that is modelled, in tokens; a longer one gets its first answer and the "
        "chain's bound.",
    )


class SearchSettings(EngineSettings):
    """Options that the search engines share. A run's own budget, in seconds or work, overrides ``work``."""

    work: int | None = Field(
        1_000_000, ge=1, description="Limit of work, unless the run sets one; null searches to the end."
    )


class DiscrepancySettings(SearchSettings):
    """Limited discrepancy search; defaults of Stokman (2011) table 6. Work is in expanded nodes."""

    branching: int = Field(3, ge=1, description="b: number of labels tried for a token in the first iteration.")
    branching_step: int = Field(1, ge=1, description="δb: number of labels that each later iteration adds.")
    token_multiplier: float = Field(1.3, gt=0, description="α: discrepancy allowed for each token, in nats.")
    iteration_multiplier: float = Field(
        1.5, gt=1, description="m: factor by which that allowance grows with each iteration."
    )


class AstarSettings(SearchSettings):
    """A*. Work is in expanded nodes."""

    nodes: int = Field(
        4_000_000, ge=1, description="Largest number of nodes in memory (28 bytes each); then the search gives up."
    )


class BeamSettings(EngineSettings):
    """Beam search. Work is in expanded nodes."""

    width: int = Field(50, ge=1, description="Number of partial labellings that are kept after each token.")


class CertifySettings(EngineSettings):
    """Certified inference: an answer, and a proof. Work is in steps of the proof and of the sampler."""

    work: int | None = Field(
        1_000_000_000, ge=1, description="Limit of work, unless the run sets one; null proves to the end."
    )
    sampler: GibbsSettings = Field(
        GibbsSettings(sweeps=30, settle=False), description="Sampler of what the first prices leave open."
    )
    rounds: int = Field(
        16,
        ge=0,
        description="Largest number of rounds, each of which relaxes a document and samples its undecided part.",
    )
    tolerance: float = Field(
        TOLERANCE, gt=0, le=LARGEST_TOLERANCE, description="Largest gap, in nats, at which a document counts as proven."
    )
    deterministic_seconds: float = Field(
        5.0,
        gt=0,
        description="Limit of CP-SAT's deterministic time for a component, in seconds; a component that reaches it "
        "keeps a gap.",
    )
    states: int = Field(
        2_000,
        ge=1,
        le=1_000_000,
        description="Largest number of states of a token in dynamic programming over sums of rows.",
    )
    branches: int = Field(
        100,
        ge=0,
        description="Largest number of nodes of a search over the labels of a component, before CP-SAT is asked.",
    )
    most_tokens: int = Field(
        2_500,
        ge=1,
        description="Largest component to be proven, in undecided tokens; a larger one keeps its answer and its gap.",
    )


class WindowSettings(EngineSettings):
    """Dynamic programming over windows of labels. Work is in tokens."""

    width: int = Field(3, ge=2, le=8, description="Largest number of neighbouring tokens in a row that is searched.")
    states: int = Field(
        100_000,
        ge=1,
        le=10_000_000,
        description="Largest number of states of a token; windows become narrower if there are more.",
    )


class TwoStageSettings(CpSatSettings):
    """Fersini et al.'s two-stage programme: the least penalty among labellings near the local optimum."""

    tau: float = Field(
        0.99, ge=0, le=1, description="τ: fraction of the local score, from worst to best, that stage two must keep."
    )
    violations: Literal["degree", "once"] = Field(
        "degree",
        description="Price of a broken row: its weight times its degree, or its weight once.",
    )
