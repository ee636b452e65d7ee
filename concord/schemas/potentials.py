"""Potentials: local scores of a document or a whole batch, which every model makes and every engine reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Floats2d, Ints1d
from concord.schemas.errors import DocumentError
from concord.schemas.labels import LabelSet

LARGEST_WEIGHT = 1e6
"""Largest weight of a model or a soft constraint, in nats. Sums of such weights over a document are finite, and
differences of 1e-6 nats are not lost among the weights of training. A constraint never to be broken is hard instead."""


class ScoreError(DocumentError):
    """A local score is NaN or +inf, under which any labelling could be called the best."""


@dataclass(frozen=True, eq=False)
class Potentials:
    """Log potentials of chains, in nats; −inf forbids.

    - ``unary`` (N, L): score of each label at each token, float64.
    - ``transition`` (L, L), or (N, L, L) where tokens differ: score of two neighbouring labels, float64; row: the
      previous label. The matrix of a sentence's first token is not read.
    - ``sentence_starts`` (S,): first token of each sentence. Transitions act inside a sentence only.

    Raises `ScoreError` where a score is NaN or +inf, `ValueError` for arrays of another shape or type.
    """

    unary: Floats2d
    transition: Floats
    sentence_starts: Ints1d

    def __post_init__(self) -> None:
        count, width = self.unary.shape
        if self.transition.shape not in ((width, width), (count, width, width)):
            shapes = f"({width}, {width}) or ({count}, {width}, {width})"
            raise ValueError(f"transition is {self.transition.shape}, want {shapes}")
        for name, table in (("unary", self.unary), ("transition", self.transition)):
            if table.dtype != np.float64:
                raise ValueError(f"{name} is {table.dtype}, want float64")
            # The maximum of what holds a NaN is NaN: one pass finds both, and makes no array.
            if table.size and not table.max() < np.inf:
                raise ScoreError(_fault(name, table))

    def __len__(self) -> int:
        return len(self.unary)

    @property
    def edges(self) -> Floats:
        """(E, L, L) the transitions into each token; E is N, or 1 where all tokens share one matrix."""
        return self.transition if self.transition.ndim == 3 else self.transition[None]

    @property
    def edges_by_token(self) -> Floats:
        """(N, L, L) the transitions into each token, as a view that nobody may write to."""
        return np.broadcast_to(self.edges, (len(self), *self.edges.shape[1:]))

    def part(self, start: int, end: int) -> Potentials:
        """Tokens start to end (end exclusive); start must be a sentence start."""
        first, last = np.searchsorted(self.sentence_starts, (start, end))
        return self.of_tokens(slice(start, end), self.sentence_starts[first:last] - start)

    def of_tokens(self, tokens: NDArray[np.int64] | slice, sentence_starts: NDArray[np.int64]) -> Potentials:
        """Potentials of whole sentences: their ``tokens`` (n,), and the ``sentence_starts`` (S,) among these."""
        transition = self.transition[tokens] if self.transition.ndim == 3 else self.transition
        return Potentials(self.unary[tokens], transition, sentence_starts)

    def at(self, temperature: float) -> Potentials:
        """The same potentials divided by a temperature above 0."""
        return Potentials(self.unary / temperature, self.transition / temperature, self.sentence_starts)

    def costing(self, label: int, nats: float) -> Potentials:
        """The same potentials, in which every token with a label scores ``nats`` less."""
        unary = self.unary.copy()
        unary[:, label] -= nats
        return Potentials(unary, self.transition, self.sentence_starts)

    def restricted(self, allowed: NDArray[np.bool_]) -> Potentials:
        """The same potentials with −inf for all labels but the ``allowed`` (N, L)."""
        return Potentials(np.where(allowed, self.unary, -np.inf), self.transition, self.sentence_starts)

    def legal(self, labels: LabelSet) -> Potentials:
        """The same potentials with every transition the label set forbids at −inf."""
        transition = np.where(labels.legal_transition, self.transition, -np.inf)
        if labels.legal_start.all():
            return Potentials(self.unary, transition, self.sentence_starts)
        unary = self.unary.copy()
        unary[np.ix_(self.sentence_starts, np.flatnonzero(~labels.legal_start))] = -np.inf
        return Potentials(unary, transition, self.sentence_starts)

    def score(self, labels: NDArray[np.int32]) -> float:
        """Σ_t unary[t, y_t] + Σ_t transition[y_{t−1}, y_t] of a labelling (N,), in nats."""
        count = len(labels)
        total = self.unary[np.arange(count), labels].sum()
        inner = np.ones(count, np.bool_)
        inner[self.sentence_starts] = False
        at = np.flatnonzero(inner)
        return float(total + self.edges[at if len(self.edges) > 1 else 0, labels[at - 1], labels[at]].sum())


def _fault(name: str, table: Floats) -> str:
    """Message that names the first score of a table that is NaN or +inf."""
    place = np.argwhere(~(table < np.inf))[0].tolist()
    axes = ("token", "label") if name == "unary" else ("token", "previous label", "label")
    where = ", ".join(f"{axis} {index}" for axis, index in zip(axes[-len(place) :], place, strict=True))
    return f"{name} score of {where} is {table[tuple(place)]}; want nats, or −inf for what is forbidden"
