"""The least activity that each linear row can still reach, while positions are decided from left to right.

Stokman (2011) §4.1 marks by hand which constraints may be judged on a partial labelling (his set P). Here that follows
from the coefficients. With the labels up to t decided, the final activity of row r is at least its activity so far plus
the least that any continuation adds. If that exceeds the row's bound, the excess is a degree that no completion avoids.
Chang et al. (2008) §3.2 call for such an admissible estimate for A*.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
from concord.schemas.labels import Labels
from concord.schemas.problem import ANY, LinearRows, Problem
from concord.workers.compiling.kernel import inner, inner_in_place, kernel
from concord.workers.inference.core.recursion import edge_place
from concord.workers.inference.numerics import HARD_EXCESS


class RowBounds(NamedTuple):
    """How each decision changes each row, as E events ordered by position.

    Position t has an event for every row with entries at t, or with entries at t + 1 in the same sentence.

    - ``pointer`` (N + 1,): the events of position t are ``pointer[t]:pointer[t + 1]``.
    - ``row`` (E,): the row of each event.
    - ``gain`` (E, L): activity that the row's token entries at t add, given y_t = l.
    - ``least`` (E, L): the least activity that all later positions add, given y_t = l.
    - ``edge_first``, ``edge_last`` (E,): the event's entries are ``edge_first[e]:edge_last[e]`` of ``previous``,
      ``label`` and ``coefficient``. Token entries are among them, with `ANY` as ``previous``.
    - ``root`` (R,): the least activity of each row under any labelling.
    - ``bound`` (R,): the right side of each row.
    - ``slack`` (R,): by how much a row may exceed its bound and still hold.
    - ``weight`` (R,): nats a unit of degree; 0 for hard rows.
    - ``hard`` (R,): marks the hard rows.
    """

    pointer: NDArray[np.int64]
    row: NDArray[np.int64]
    gain: Floats
    least: Floats
    edge_first: NDArray[np.int64]
    edge_last: NDArray[np.int64]
    previous: NDArray[np.int32]
    label: Labels
    coefficient: Floats
    root: Floats
    bound: Floats
    slack: Floats
    weight: Floats
    hard: NDArray[np.bool_]


def row_bounds(problem: Problem, alive: NDArray[np.bool_]) -> RowBounds:
    """Bounds over all labellings that use ``alive`` (N, L) labels and no −inf transition.

    Within one row the minimum is exact for runs of adjacent positions. Over a gap between a row's positions, the labels
    on both sides are taken as independent, which can only lower the minimum.
    """
    rows, p = problem.rows, problem.potentials
    order = rows.by_position[rows.weight[rows.row_of_entry[rows.by_position]] > 0]
    row, position = rows.row_of_entry[order], rows.position[order].astype(np.int64)
    opens = np.zeros(len(problem) + 1, np.bool_)
    opens[p.sentence_starts] = True
    sorted_rows = _Entries(
        np.searchsorted(row, np.arange(len(rows) + 1)).astype(np.int64),
        position,
        rows.previous[order],
        rows.label[order],
        rows.coefficient[order],
    )
    at, event_row, gain, least, first, last, root = _events(
        sorted_rows, _most_events(row, position), alive, np.isfinite(p.edges), opens
    )
    by_position = np.argsort(at, kind="stable")
    return RowBounds(
        np.searchsorted(at[by_position], np.arange(len(problem) + 1)).astype(np.int64),
        event_row[by_position],
        gain[by_position],
        least[by_position],
        first[by_position],
        last[by_position],
        sorted_rows.previous,
        sorted_rows.label,
        sorted_rows.coefficient,
        root,
        rows.bound,
        rows.slack,
        np.where(np.isinf(rows.weight), 0.0, rows.weight),
        np.isinf(rows.weight),
    )


def root_penalty(bounds: RowBounds, rows: LinearRows) -> float:
    """Nats that the rows cost under every labelling, at least; inf if some hard row cannot hold."""
    excess = bounds.root - bounds.bound
    if bool((bounds.hard & (excess > HARD_EXCESS * bounds.slack)).any()):
        return np.inf
    return float((bounds.weight * np.where(excess > bounds.slack, excess, 0.0))[rows.weight > 0].sum())


def _most_events(row: NDArray[np.int64], position: NDArray[np.int64]) -> int:
    """An upper bound on the number of events: one for each position of each row, and one before each gap."""
    if not len(row):
        return 0
    same_row, step = np.diff(row) == 0, np.diff(position)
    return 2 + int((~same_row | (step != 0)).sum() + (~same_row | (step > 1)).sum())


class _Entries(NamedTuple):
    """The rows' entries, ordered by row, then position; those of row r are ``pointer[r]:pointer[r + 1]``."""

    pointer: NDArray[np.int64]
    position: NDArray[np.int64]
    previous: NDArray[np.int32]
    label: Labels
    coefficient: Floats


@kernel
def _events(
    entries: _Entries, size: int, alive: NDArray[np.bool_], possible: NDArray[np.bool_], opens: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats, Floats, NDArray[np.int64], NDArray[np.int64], Floats]:
    width = alive.shape[1]
    at, row = np.empty(size, np.int64), np.empty(size, np.int64)
    first, last = np.zeros(size, np.int64), np.zeros(size, np.int64)
    gain, least = np.zeros((size, width)), np.zeros((size, width))
    root = np.zeros(len(entries.pointer) - 1)
    found = 0
    for r in range(len(root)):
        after = np.zeros(width)
        high = entries.pointer[r + 1]
        while high > entries.pointer[r]:
            t = entries.position[high - 1]
            low = high - 1
            while low > entries.pointer[r] and entries.position[low - 1] == t:
                low -= 1
            at[found], row[found], first[found], last[found] = t, r, low, high
            for e in range(low, high):
                if entries.previous[e] == ANY:
                    gain[found, entries.label[e]] += entries.coefficient[e]
            least[found] = after
            into = possible[edge_place(possible, t)]
            before = _before(entries, low, high, gain[found], after, alive[t], into, opens[t])
            found += 1
            high = low
            if low > entries.pointer[r] and entries.position[low - 1] == t - 1:
                after = before
                continue
            lowest = _lowest(before, alive[max(0, t - 1)])
            if t > 0 and not opens[t]:
                at[found], row[found] = t - 1, r
                least[found] = before
                found += 1
            after = np.full(width, lowest)
            root[r] = lowest
    return at[:found], row[:found], gain[:found], least[:found], first[:found], last[:found], root


@inner
def _before(
    entries: _Entries,
    low: int,
    high: int,
    gain: Floats,
    after: Floats,
    alive: NDArray[np.bool_],
    possible: NDArray[np.bool_],
    opens: np.bool_,
) -> Floats:
    """(L,) the least activity that a position and all later ones add, given the label before it."""
    width = len(gain)
    pairs = np.empty((width, width))
    for b in range(width):
        pairs[:, b] = gain[b] + after[b] if alive[b] else np.inf
    if opens:
        return np.full(width, pairs[0].min())
    for e in range(low, high):
        if entries.previous[e] != ANY:
            pairs[entries.previous[e], entries.label[e]] += entries.coefficient[e]
    before = np.full(width, np.inf)
    for a in range(width):
        for b in range(width):
            if possible[a, b]:
                before[a] = min(before[a], pairs[a, b])
    return before


@inner_in_place
def _lowest(values: Floats, alive: NDArray[np.bool_]) -> float:
    best = np.inf
    for label in range(len(values)):
        if alive[label]:
            best = min(best, values[label])
    return best
