"""Vectors of the words around each token, as features of a chain with real values.

score[t, y] += Σ_k Σ_d vector(word at t + offset k)[d] · weight[k, d, y]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Floats, Ids
from concord.workers.compiling.kernel import inner_in_place


class TokenVectors(NamedTuple):
    """Vectors of N tokens, and the weights of their numbers.

    - ``rows`` (N, K): row of the word at each of K offsets from the token; −1 for none.
    - ``points`` (V, D): vectors.
    - ``weights`` (K, D, L): nats that a number of 1 at an offset gives to each label.
    """

    rows: Ids
    points: Floats
    weights: Floats

    @classmethod
    def none(cls, tokens: int, width: int) -> TokenVectors:
        """Of tokens without vectors."""
        return cls(np.zeros((tokens, 0), np.int32), np.zeros((0, 0)), np.zeros((0, 0, width)))

    @classmethod
    def of(cls, rows: Ids, points: Floats, width: int) -> TokenVectors:
        """Of these rows, with weights of 0; vectors of other words are left out."""
        used, number = np.unique(rows, return_inverse=True)
        absent = int(used[:1].sum() < 0)
        renumbered = number.reshape(rows.shape).astype(np.int32) - np.int32(absent)
        weights = np.zeros((rows.shape[1], points.shape[1], width))
        return cls(renumbered, np.ascontiguousarray(points[used[absent:]]), weights)

    def with_no_weight(self) -> TokenVectors:
        """The same vectors with weights of their own, of 0."""
        return self._replace(weights=np.zeros_like(self.weights))

    def thinned(self, dropout: float, noise: np.random.Generator) -> TokenVectors:
        """Without a random fraction ``dropout`` of the tokens' vectors; the numbers of the others are raised."""
        if not dropout or not self.rows.size:
            return self
        left_out = noise.random(self.rows.shape, np.float32) < dropout
        return self._replace(rows=np.where(left_out, np.int32(-1), self.rows), points=self.points / (1.0 - dropout))

    def scores(self) -> Floats:
        """(N, L) what the vectors of each token give its labels, in nats."""
        total = np.zeros((len(self.rows), self.weights.shape[2]))
        for rows, words in zip(self.rows.T, word_scores(self.points, self.weights), strict=True):
            total += np.where(rows[:, None] >= 0, words[rows], 0.0)
        return total


def word_scores(points: Floats, weights: Floats) -> Floats:
    """(K, V, L) what each word gives each label at each offset, in nats; without BLAS, so that all machines agree."""
    scores: Floats = np.einsum("vd,kdl->kvl", points, weights, optimize=False)
    return scores


@inner_in_place
def add_vectors(vectors: TokenVectors, token: int, row: Floats) -> None:
    """Adds to ``row`` (L,) what the vectors of a token give its labels."""
    for k in range(vectors.rows.shape[1]):
        word = vectors.rows[token, k]
        if word >= 0:
            for d in range(vectors.points.shape[1]):
                for y in range(len(row)):
                    row[y] += vectors.points[word, d] * vectors.weights[k, d, y]


@inner_in_place
def move_vectors(vectors: TokenVectors, token: int, rate: float, excess: Floats) -> None:
    """Moves the weights of a token's vectors against ``excess`` (L,), expected minus gold counts of its labels."""
    for k in range(vectors.rows.shape[1]):
        word = vectors.rows[token, k]
        if word >= 0:
            for d in range(vectors.points.shape[1]):
                move = rate * vectors.points[word, d]
                for y in range(len(excess)):
                    vectors.weights[k, d, y] -= move * excess[y]
