"""Options of features: word clusters."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from concord.schemas.settings import (
    Settings,
)


class ClusterSettings(Settings):
    """Clustering of words by their vectors."""

    clusters: tuple[int, ...] = Field(
        (50, 200, 1000), min_length=1, description="Numbers of clusters; each gives one clustering."
    )
    words: int = Field(
        60_000, ge=1, description="Largest number of words, the most frequent ones; others have no cluster."
    )
    seed: int = Field(0, ge=0, description="Seed of k-means and of the singular value decomposition.")

    @model_validator(mode="after")
    def _sizes_differ(self) -> Self:
        if len(set(self.clusters)) != len(self.clusters) or min(self.clusters) < 2:
            raise ValueError("clusters: give different sizes of at least 2")
        return self


class CoOccurrenceSettings(ClusterSettings):
    """Clustering of words by the words around them."""

    least_count: int = Field(5, ge=1, description="Least count of a word; rarer ones have no cluster.")
    contexts: int = Field(
        4_000, ge=1, description="Number of most frequent words that count as contexts of the others."
    )
    dimensions: int = Field(100, ge=1, description="Number of dimensions of the vector of a word's contexts.")


class BrownSettings(Settings):
    """Tree of words by the words before and after them (Brown clusters)."""

    clusters: int = Field(
        320, ge=2, le=2_000, description="Number of clusters that words are put into: the leaves of the tree."
    )
    prefixes: tuple[int, ...] = Field(
        (4, 6, 10, 20), min_length=1, description="Numbers of first bits of the tree; each gives one clustering."
    )
    words: int = Field(
        60_000, ge=1, description="Largest number of words, the most frequent ones; others have no cluster."
    )
    least_count: int = Field(5, ge=1, description="Least count of a word; rarer ones have no cluster.")

    @model_validator(mode="after")
    def _lengths_differ(self) -> Self:
        if len(set(self.prefixes)) != len(self.prefixes) or not 1 <= min(self.prefixes) <= max(self.prefixes) <= 30:
            raise ValueError("prefixes: give different lengths of 1 to 30")
        return self
