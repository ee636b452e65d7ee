"""Options of the engine. Importing this imports no engine."""

from __future__ import annotations

from pydantic import Field

from concord.workers.inference.settings import SearchSettings


class CspSettings(SearchSettings):
    """Weighted constraint satisfaction over candidate labels. Work is in expanded nodes."""

    candidates: int = Field(
        3, ge=1, description="Number of labels that a token may choose from; the paper's three trigrams name three."
    )
    margin: float = Field(10.0, ge=0, description="Largest loss, in nats, of the best labelling with a candidate.")
