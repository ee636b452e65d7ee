"""Options of features: word clusters, and lists of phrases."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from concord.schemas.settings import Settings

WORD_TABLE_NAME = "glove"
"""Name of the table of word clusters that comes with concord; it stands in the place of a file."""


class ClusterSettings(Settings):
    """Clustering of words by their vectors."""

    clusters: tuple[int, ...] = Field(
        (50, 200, 1000), min_length=1, description="Numbers of clusters; each gives one clustering."
    )
    words: int = Field(
        60_000, ge=1, description="Largest number of words, the most frequent ones; others have no cluster."
    )
    seed: int = Field(0, ge=0, description="Seed of k-means.")

    @model_validator(mode="after")
    def _sizes_differ(self) -> Self:
        if len(set(self.clusters)) != len(self.clusters) or min(self.clusters) < 2:
            raise ValueError("clusters: give different sizes of at least 2")
        return self


class TreeSettings(Settings):
    """Clusters of words by the first bits of their paths in a tree."""

    prefixes: tuple[int, ...] = Field(
        (4, 6, 10, 20), min_length=1, description="Numbers of first bits of the tree; each gives one clustering."
    )
    words: int = Field(
        1_000_000, ge=1, description="Largest number of words, the most frequent ones; others have no cluster."
    )

    @model_validator(mode="after")
    def _lengths_differ(self) -> Self:
        if len(set(self.prefixes)) != len(self.prefixes) or not 1 <= min(self.prefixes) <= max(self.prefixes) <= 30:
            raise ValueError("prefixes: give different lengths of 1 to 30")
        return self


class PhraseSettings(Settings):
    """Choice of the phrases of a gazetteer."""

    most: int = Field(
        100_000, ge=1, description="Largest number of phrases of a type from a package, the most important first."
    )
    countries: tuple[str, ...] = Field(
        (), description="Countries of cities, as two letters such as US; none: all countries."
    )
    population: int = Field(15_000, ge=500, description="Least number of people of a city.")
    common: Literal["apart", "drop"] = Field(
        "apart",
        description="What becomes of a phrase that is one common word: apart gives it a type of its own, TYPE-common; "
        "drop leaves it out.",
    )
    lower_case: float = Field(
        0.5,
        gt=0,
        le=1,
        description="With a corpus: share of a word's uses that are in lower case from which it is common.",
    )
    uses: int = Field(
        5, ge=1, description="With a corpus: least number of a word's uses; rarer ones are judged by --frequencies."
    )
    zipf: float = Field(
        4.5,
        ge=0,
        le=9,
        description="With --frequencies: frequency from which a word is common, as log10 of its uses in 10⁹ words.",
    )
