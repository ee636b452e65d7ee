"""Potentials: local scores of a document or a whole batch, which every model makes and every engine reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
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
    - ``transition`` (L, L): score of two neighbouring labels, float64; row: the previous label.
    - ``sentence_starts`` (S,): first token of each sentence. Transitions act inside a sentence only.

    Raises `ScoreError` where a score is NaN or +inf, `ValueError` for arrays of another shape or type.
    """

    unary: Floats
    transition: Floats
    sentence_starts: NDArray[np.int64]

    def __post_init__(self) -> None:
        width = self.unary.shape[1]
        if self.transition.shape != (width, width):
            raise ValueError(f"transition is {self.transition.shape}, want ({width}, {width})")
        for name, table in (("unary", self.unary), ("transition", self.transition)):
            if table.dtype != np.float64:
                raise ValueError(f"{name} is {table.dtype}, want float64")
            # The maximum of what holds a NaN is NaN: one pass finds both, and makes no array.
            if table.size and not table.max() < np.inf:
                raise ScoreError(_fault(name, table))

    def __len__(self) -> int:
        return len(self.unary)

    def part(self, start: int, end: int) -> Potentials:
        """Tokens start to end (end exclusive); start must be a sentence start."""
        first, last = np.searchsorted(self.sentence_starts, (start, end))
        return Potentials(self.unary[start:end], self.transition, self.sentence_starts[first:last] - start)

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
        return float(total + self.transition[labels[at - 1], labels[at]].sum())


def _fault(name: str, table: Floats) -> str:
    """Message that names the first score of a table that is NaN or +inf."""
    row, label = np.argwhere(~(table < np.inf))[0].tolist()
    value, place = table[row, label], "token" if name == "unary" else "previous label"
    return f"{name} score of {place} {row}, label {label} is {value}; want nats, or −inf for what is forbidden"
