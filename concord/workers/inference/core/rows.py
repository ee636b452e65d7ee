"""Linear rows kept up to date label by label: activities that follow one change at a time, in numba.

Stokman (2011) eq. 60–63: setting a label adds its column to the row sums, taking it back subtracts it. Hard rows get a
finite surrogate weight here, so that sums stay finite. What an engine returns is scored by `Problem.score`, where they
cost inf.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.labels import Labels
from concord.schemas.problem import ANY, Problem
from concord.workers.compiling.kernel import kernel_in_place


class RowState(NamedTuple):
    """The activity of each row under the labels now, and the rows' entries by position.

    - ``activity`` (R,): the left side of each row, Σ coefficient · 1[edge].
    - ``bound``, ``slack`` (R,): its right side, and by how much it may be exceeded.
    - ``weight`` (R,): nats a unit of degree.
    - ``pointer`` (N + 2,): the entries of position t are ``pointer[t]:pointer[t + 1]``; position N is empty.
    - ``row``, ``previous``, ``label``, ``coefficient``: the entries, ordered by position.
    """

    activity: NDArray[np.float64]
    bound: NDArray[np.float64]
    slack: NDArray[np.float64]
    weight: NDArray[np.float64]
    pointer: NDArray[np.int64]
    row: NDArray[np.int64]
    previous: NDArray[np.int32]
    label: NDArray[np.int32]
    coefficient: NDArray[np.float64]


def row_state(problem: Problem, labels: Labels, hard_weight: float) -> RowState:
    """The state under ``labels`` (N,). Hard rows weigh ``hard_weight`` nats a unit of degree."""
    rows = problem.rows
    order = np.argsort(rows.position, kind="stable")
    counts = np.bincount(rows.position, minlength=len(problem) + 1)
    before = np.concatenate([[ANY], labels[:-1]])
    fits = (rows.previous == ANY) | (rows.previous == before[rows.position])
    held = fits & (labels[rows.position] == rows.label)
    return RowState(
        np.bincount(rows.row_of_entry, rows.coefficient * held, len(rows)).astype(np.float64),
        rows.bound,
        rows.slack,
        np.where(np.isinf(rows.weight), hard_weight, rows.weight),
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        rows.row_of_entry[order],
        rows.previous[order],
        rows.label[order],
        rows.coefficient[order],
    )


@kernel_in_place
def row_penalty(state: RowState) -> float:
    """The penalty of all rows under the labels now, in nats."""
    total = 0.0
    for r in range(len(state.bound)):
        total += state.weight[r] * row_degree(state, r)
    return total


@kernel_in_place
def row_degree(state: RowState, r: int) -> float:
    """By how much row r exceeds its bound now; 0 if that is within its slack."""
    excess = state.activity[r] - state.bound[r]
    return excess if excess > state.slack[r] else 0.0


@kernel_in_place
def set_label(state: RowState, labels: Labels, t: int, new: int) -> float:
    """Sets ``labels[t]`` and updates the activities; returns the growth of the rows' penalty in nats."""
    old = labels[t]
    grown = 0.0
    if old == new:
        return grown
    for e in range(state.pointer[t], state.pointer[t + 1]):
        if state.previous[e] == ANY or state.previous[e] == labels[t - 1]:
            if state.label[e] == old:
                grown += _shift(state, state.row[e], -state.coefficient[e])
            elif state.label[e] == new:
                grown += _shift(state, state.row[e], state.coefficient[e])
    for e in range(state.pointer[t + 1], state.pointer[t + 2] if t + 1 < len(labels) else state.pointer[t + 1]):
        if state.previous[e] != ANY and state.label[e] == labels[t + 1]:
            if state.previous[e] == old:
                grown += _shift(state, state.row[e], -state.coefficient[e])
            elif state.previous[e] == new:
                grown += _shift(state, state.row[e], state.coefficient[e])
    labels[t] = new
    return grown


@kernel_in_place
def _shift(state: RowState, r: int, change: float) -> float:
    before = row_degree(state, r)
    state.activity[r] += change
    return float(state.weight[r] * (row_degree(state, r) - before))
