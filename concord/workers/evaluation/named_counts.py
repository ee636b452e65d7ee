"""Tables of integer counts with named rows, which add up over shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from concord.workers.evaluation import figures

Counts = NDArray[np.int64]


def ratio(part: int, whole: int) -> float:
    """part ÷ whole; 0 where whole is 0, as conlleval has it."""
    return part / whole if whole else 0.0


@dataclass(frozen=True, eq=False)
class NamedCounts:
    """Integer counts of C kinds for R names.

    - ``names`` (R,): sorted.
    - ``table`` (R, C): counts.
    - ``kinds`` (C,): names of the columns, given by each subclass.

    Addition is exact, commutative and associative, so shards merge in any order; the names of both sides may differ.
    """

    kinds: ClassVar[tuple[str, ...]] = ()

    names: tuple[str, ...]
    table: Counts

    def __post_init__(self) -> None:
        if self.table.shape != (len(self.names), len(self.kinds)):
            raise ValueError(f"counts are {self.table.shape}, want ({len(self.names)}, {len(self.kinds)})")
        if any(a >= b for a, b in pairwise(self.names)):
            raise ValueError(f"names must be sorted and distinct, not {self.names}")

    @classmethod
    def empty(cls) -> Self:
        """Nothing counted yet: the neutral element of addition."""
        return cls((), np.zeros((0, len(cls.kinds)), np.int64))

    @classmethod
    def of_columns(cls, names: Sequence[str], columns: Sequence[Counts]) -> Self:
        """Counts given as C columns (R,), for names in any order."""
        order = sorted(range(len(names)), key=names.__getitem__)
        table = np.stack([np.asarray(c, np.int64) for c in columns], axis=1)
        return cls(tuple(names[i] for i in order), table[order])

    def __add__(self, other: Self) -> Self:
        if self.names == other.names:
            return type(self)(self.names, self.table + other.table)
        names = tuple(sorted({*self.names, *other.names}))
        row = {name: i for i, name in enumerate(names)}
        table = np.zeros((len(names), len(self.kinds)), np.int64)
        for part in (self, other):
            table[[row[n] for n in part.names]] += part.table
        return type(self)(names, table)

    def row(self, name: str) -> dict[str, int]:
        """The counts of one name by kind; all 0 for a name that was never seen."""
        if name not in self.names:
            return dict.fromkeys(self.kinds, 0)
        return dict(zip(self.kinds, self.table[self.names.index(name)].tolist(), strict=True))

    def total(self, kind: str) -> int:
        """One kind summed over all names."""
        return int(self.table[:, self.kinds.index(kind)].sum())

    def as_dict(self) -> dict[str, dict[str, int]]:
        """All counts as plain Python values."""
        return {name: self.row(name) for name in self.names}

    @classmethod
    def from_dict(cls, rows: Mapping[str, Mapping[str, int]]) -> Self:
        """The inverse of `as_dict`; a missing kind counts 0."""
        names = sorted(rows)
        columns = [np.array([rows[n].get(kind, 0) for n in names], np.int64) for kind in cls.kinds]
        return cls.of_columns(names, columns)


@dataclass(frozen=True, eq=False)
class MatchCounts(NamedCounts):
    """Numbers of gold, predicted and correct (in both) items of each name."""

    kinds: ClassVar[tuple[str, ...]] = ("gold", "predicted", "correct")

    def precision(self, name: str | None = None) -> float:
        """correct ÷ predicted of one name, or of all names together."""
        return float(figures.precision(self._rows(name)))

    def recall(self, name: str | None = None) -> float:
        """correct ÷ gold of one name, or of all names together."""
        return float(figures.recall(self._rows(name)))

    def f1(self, name: str | None = None) -> float:
        """The harmonic mean of precision and recall: 2 correct ÷ (gold + predicted)."""
        return float(figures.f1(self._rows(name)))

    def _rows(self, name: str | None) -> Counts:
        """The counts of all names, or of one; none of a name that was never seen."""
        return self.table if name is None else self.table[[n == name for n in self.names]]
