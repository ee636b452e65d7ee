"""What rows look at: their columns for kernels, how many neighbouring tokens, and the most that entries add up to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ints
from concord.schemas.problem import LinearRows, Problem
from concord.workers.compiling.kernel import kernel

NO_WINDOW = np.iinfo(np.int64).max
"""The number of tokens of a row that reaches over several sentences."""


class RowColumns(NamedTuple):
    """`LinearRows` as kernels read them."""

    pointer: Ints
    position: NDArray[np.int32]
    previous: NDArray[np.int32]
    label: NDArray[np.int32]
    coefficient: Floats
    bound: Floats
    slack: Floats
    weight: Floats


def row_columns(rows: LinearRows) -> RowColumns:
    """The rows' arrays."""
    entries = rows.pointer, rows.position, rows.previous, rows.label, rows.coefficient
    return RowColumns(*entries, rows.bound, rows.slack, rows.weight)


def tokens_of_rows(problem: Problem) -> Ints:
    """(R,) the number of neighbouring tokens that each row looks at: 0 for none, `NO_WINDOW` over several sentences."""
    first, last = problem.rows.ends
    starts = problem.potentials.sentence_starts
    apart = np.searchsorted(starts, first, side="right") != np.searchsorted(starts, last, side="right")
    return np.where(last < 0, 0, np.where(apart, NO_WINDOW, last - first + 1))


def largest_activity(rows: LinearRows, allowed: NDArray[np.bool_]) -> Floats:
    """(R,) upper bound of each row's activity under labellings of ``allowed`` (N, L) labels."""
    order = rows.by_position
    entries = rows.position[order], rows.previous[order], rows.label[order], rows.coefficient[order]
    bound: Floats = _largest_activity(rows.pointer, *entries, allowed)
    return bound


@kernel
def _largest_activity(
    pointer: Ints,
    position: NDArray[np.int32],
    previous: NDArray[np.int32],
    label: NDArray[np.int32],
    coefficient: Floats,
    allowed: NDArray[np.bool_],
) -> Floats:
    """(R,) upper bound of each row's activity under allowed labels; entries are ordered by position."""
    largest = np.zeros(len(pointer) - 1)
    gain = np.zeros(allowed.shape[1])
    for r in range(len(largest)):
        e = pointer[r]
        while e < pointer[r + 1]:
            t = position[e]
            gain[:] = 0.0
            while e < pointer[r + 1] and position[e] == t:
                # An edge entry also depends on the label before: it counts only if it raises the activity.
                if previous[e] < 0 or coefficient[e] > 0:
                    gain[label[e]] += coefficient[e]
                e += 1
            best = -np.inf
            for other in range(len(gain)):
                if allowed[t, other]:
                    best = max(best, gain[other])
            largest[r] += best
    return largest
