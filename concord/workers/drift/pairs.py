"""Documents of two nights, matched by what names them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from concord.schemas.arrays import Ints


@dataclass(frozen=True, eq=False)
class Pairs:
    """Documents of two nights: (P, 2) rows of those that both have, and rows of the others."""

    rows: Ints
    gone: Ints
    new: Ints

    @classmethod
    def of(cls, before: Sequence[Hashable], after: Sequence[Hashable]) -> Self:
        """Documents by their names, each of which stands once in a night."""
        place = {name: i for i, name in enumerate(before)}
        old = np.array([place.get(name, -1) for name in after], np.int64)
        both = np.flatnonzero(old >= 0)
        rows = np.column_stack([old[both], both])
        return cls(rows, np.setdiff1d(np.arange(len(before)), rows[:, 0]), np.flatnonzero(old < 0))
