"""Options of the memory-based learner of label n-grams, and of the engine. Importing this imports no engine."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from concord.schemas.distribution import with_extra
from concord.workers.inference.settings import SearchSettings
from concord.workers.models.settings import CountingSettings


class TrigramWindow(StrEnum):
    """Features of a window around a token."""

    WORDS = "words"
    """Words and how they are written."""
    CHUNKS = "chunks"
    """Words, and tags of the column ``pos``."""
    NAMES = "names"
    """The same, and tags of the column ``chunk``, affixes, and the entities of the training documents."""


class Metric(StrEnum):
    """Distance of two values of a feature, see `workers.papers.canisius.nearest`."""

    OVERLAP = "overlap"
    """1 where the values differ, otherwise 0."""
    MVDM = "mvdm"
    """Modified value difference: sum of absolute differences of the values' class distributions."""
    JEFFREY = "jeffrey"
    """Jeffrey divergence of the values' class distributions."""


class Weighting(StrEnum):
    """Weight of a feature in the distance."""

    GAIN_RATIO = "gain-ratio"
    INFORMATION_GAIN = "information-gain"
    NONE = "none"


class Decay(StrEnum):
    """Weight of a neighbour by its distance d."""

    NONE = "none"
    INVERSE = "inverse"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"


class TrigramSettings(CountingSettings):
    """Options of the memory-based model: the instances it keeps, the neighbours it finds, and how they vote."""

    n: int = Field(
        3,
        ge=1,
        le=5,
        description="Number of labels in a class: those of a token and its neighbours; 1 is the token's alone.",
    )
    windows: TrigramWindow = Field(
        TrigramWindow.WORDS,
        description="Features of a token's window: words; chunks, which also reads pos; names, which also reads pos "
        "and chunk.",
    )
    held_out: bool = Field(
        default=True,
        description="With windows=names: hide entities from a training document that no other document has.",
    )
    learner: Literal["nearest", "igtree", "tribl2", "ib1"] = Field(
        "nearest",
        description=f"Learner that finds neighbours; all but nearest need TiMBL: pip install '{with_extra('memory')}'.",
    )
    k: int = Field(1, ge=1, le=100, description="Number of smallest distances whose instances are neighbours.")
    metric: Metric = Field(Metric.OVERLAP, description="Distance between two values.")
    weighting: Weighting = Field(Weighting.GAIN_RATIO, description="Weight of a feature.")
    decay: Decay = Field(Decay.NONE, description="Weight of a neighbour by its distance.")
    domain: Literal["predicted", "neighbours"] = Field(
        "predicted",
        description="Candidate labels of a token: those of the predicted classes, or of all classes in the "
        "neighbourhoods.",
    )
    legality: Literal["loose", "bio"] = Field(
        "bio",
        description="Use of I- in BIO labels: bio, only after its B- or I-, so B- is a candidate wherever I- is; "
        "loose, anywhere, and it opens a span if it continues none.",
    )


class CspSettings(SearchSettings):
    """Weighted constraint satisfaction over candidate labels. Work is in expanded nodes."""

    candidates: int = Field(
        3, ge=1, description="Number of labels that a token may choose from; the paper's three trigrams name three."
    )
    margin: float = Field(10.0, ge=0, description="Largest loss, in nats, of the best labelling with a candidate.")
