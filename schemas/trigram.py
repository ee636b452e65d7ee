"""Settings of the memory-based learner of label n-grams; apart, since kernels are named by the settings they import."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from concord.schemas.settings import CountingSettings


class Metric(StrEnum):
    """How far two values of a feature are apart."""

    OVERLAP = "overlap"
    """1 where they differ."""
    MVDM = "mvdm"
    """Sum of differences of the shares of classes that go with them."""
    JEFFREY = "jeffrey"
    """Jeffrey divergence of these shares."""


class Weighting(StrEnum):
    """What a feature weighs."""

    GAIN_RATIO = "gain-ratio"
    INFORMATION_GAIN = "information-gain"
    NONE = "none"


class Decay(StrEnum):
    """What a neighbour at distance d weighs."""

    NONE = "none"
    INVERSE = "inverse"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"


class Window(StrEnum):
    """What is looked at around a token."""

    WORDS = "words"
    """Words and how they are written."""
    CHUNKS = "chunks"
    """These with tags of the column ``pos``."""
    NAMES = "names"
    """These with tags of the column ``chunk``, affixes, and the entities of the training documents."""


class TrigramSettings(CountingSettings):
    """What is kept of labelled tokens, and how the nearest ones speak."""

    n: int = Field(3, ge=1, le=5, description="Labels of a class: a token's and its neighbours'; 1: its own alone.")
    windows: Window = Field(
        Window.WORDS, description="What is compared: words, chunks (reads pos) or names (and chunk)."
    )
    held_out: bool = Field(
        default=True, description="Windows of names: a training document is not told of entities that it alone has."
    )
    learner: Literal["nearest", "igtree", "tribl2", "ib1"] = Field(
        "nearest",
        description="What finds neighbours; all but nearest are TiMBL's, which pip install concord[memory] adds.",
    )
    k: int = Field(1, ge=1, le=100, description="Distances, from the least on, whose instances are neighbours.")
    metric: Metric = Field(Metric.OVERLAP, description="How far two values are apart.")
    weighting: Weighting = Field(Weighting.GAIN_RATIO, description="What a feature weighs.")
    decay: Decay = Field(Decay.NONE, description="How a neighbour's weight falls with its distance.")
    domain: Literal["predicted", "neighbours"] = Field(
        "predicted", description="A token's candidates: labels of predicted classes, or of all in the neighbourhoods."
    )
    legality: Literal["loose", "bio"] = Field(
        "bio",
        description="Of BIO labels: I- has to follow its B- or I-, so B- is a candidate wherever I- is; or may stand "
        "anywhere, and opens a span where it continues none.",
    )
