"""Options of the engine. Importing this imports no engine."""

from __future__ import annotations

from pydantic import Field

from concord.schemas.settings import EngineSettings


class AnnealedSettings(EngineSettings):
    """One annealed chain from a random labelling, as in Finkel (2005) table 1. Work as that of gibbs."""

    work: int | None = Field(
        1_000_000_000, ge=1, description="Limit of work, unless the run sets one; null samples to the end."
    )
    sweeps: int = Field(1000, ge=1, description="Number of sweeps over the document.")
    temperature: float = Field(1.0, gt=0, description="Temperature c of the first sweep; it falls linearly to 0.")
    slot_loss: float = Field(
        10.0, ge=0, description="Largest loss, in nats, of a span that the sampler may set as a whole."
    )
    hard_weight: float = Field(30.0, gt=0, description="Price of a hard constraint while sampling, in nats a unit.")
