"""Building `LinearRows` from whole arrays of positions: the only code that lays out entries.

Every helper below works on M places (a row and a position) at once. A *pair mask* (L, L) says which edges
1[y_{t−1} = a ∧ y_t = b] count, a *label mask* (L,) which labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from schemas.potentials import Floats
from schemas.problem import ANY, LinearRows

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

MOST_ENTRIES = 8_000_000
"""Entries one constraint may have in one document (about 250 MB while they are laid out)."""


class ConstraintError(ValueError):
    """A constraint that does not fit its labels or its document; the message says what to change."""


NO_ROWS = LinearRows.none()
"""What most lexicons have to say about most documents."""


class Part(NamedTuple):
    """A share of some rows: for each of M places, the same P edges with the place's own coefficient.

    ``row``, ``position`` and ``coefficient`` are (M,), ``before`` (`ANY` for a token label) and
    ``after`` (P,).
    """

    row: Ints
    position: Ints
    coefficient: Floats
    before: Ints
    after: Ints


def tokens_in(row: Ints, position: Ints, labels: Mask, coefficient: float | Ints | Floats = 1.0) -> Part:
    """coefficient · Σ_{l ∈ labels} 1[y_position = l] for each of the M places; coefficient scalar or (M,)."""
    after = np.flatnonzero(labels)
    return Part(row, position, _spread(coefficient, len(position)), np.full(len(after), ANY, np.int64), after)


def edges_in(row: Ints, position: Ints, pairs: Mask, coefficient: float | Ints | Floats = 1.0) -> Part:
    """coefficient · Σ_{(a, b) ∈ pairs} 1[y_{position−1} = a ∧ y_position = b] for each of the M places.

    A label b that counts after every a becomes one `ANY` entry. No position may start a sentence.
    """
    always: Mask = np.logical_and.reduce(pairs, axis=0)
    before, after = np.nonzero(pairs & ~always)
    whole = np.flatnonzero(always)
    if len(whole):
        before = np.concatenate([np.full(len(whole), ANY, np.int64), before])
        after = np.concatenate([whole, after])
    return Part(row, position, _spread(coefficient, len(position)), before, after)


def laid_out(bound: Floats | Ints, parts: Sequence[Part]) -> LinearRows:
    """R = len(bound) rows Σ ≤ bound out of all parts together.

    Weight 1 and constraint 0: `stamped` gives both. Entries of one row keep the order of the
    parts. Raises `ConstraintError` for more than `MOST_ENTRIES` entries.
    """
    _guard(sum(len(part.row) * len(part.after) for part in parts))
    pointer, position, previous, label, coefficient = _expand(
        len(bound),
        _ends([len(part.row) for part in parts]),
        np.concatenate([part.row for part in parts], dtype=np.int64),
        np.concatenate([part.position for part in parts], dtype=np.int64),
        np.concatenate([part.coefficient for part in parts]),
        _ends([len(part.after) for part in parts]),
        np.concatenate([part.before for part in parts], dtype=np.int64),
        np.concatenate([part.after for part in parts], dtype=np.int64),
    )
    count = len(bound)
    return LinearRows(
        pointer,
        position,
        previous,
        label,
        coefficient,
        np.asarray(bound, np.float64),
        np.ones(count),
        np.zeros(count, np.int32),
    )


@njit(cache=True, nogil=True)
def _expand(
    count: int, place_end: Any, row: Any, position: Any, times: Any, edge_end: Any, before: Any, after: Any
) -> Any:
    pointer = np.zeros(count + 1, np.int64)
    place, edge = 0, 0
    for part in range(len(place_end)):
        for m in range(place, place_end[part]):
            pointer[row[m] + 1] += edge_end[part] - edge
        place, edge = place_end[part], edge_end[part]
    for r in range(count):
        pointer[r + 1] += pointer[r]
    total = pointer[count]
    at = pointer[:count].copy()
    positions, previous, label = np.empty(total, np.int32), np.empty(total, np.int32), np.empty(total, np.int32)
    coefficient = np.empty(total, np.float64)
    place, edge = 0, 0
    for part in range(len(place_end)):
        for m in range(place, place_end[part]):
            for k in range(edge, edge_end[part]):
                e = at[row[m]]
                at[row[m]] += 1
                positions[e] = position[m]
                previous[e] = before[k]
                label[e] = after[k]
                coefficient[e] = times[m]
        place, edge = place_end[part], edge_end[part]
    return pointer, positions, previous, label, coefficient


def _ends(sizes: Sequence[int]) -> Ints:
    return np.cumsum(np.array(sizes, np.int64))


def _spread(coefficient: float | Ints | Floats, count: int) -> Floats:
    if isinstance(coefficient, np.ndarray):
        return coefficient.astype(np.float64)
    return np.full(count, float(coefficient))


def merged(rows: LinearRows) -> LinearRows:
    """The same rows with entries of one edge added up, and those that cancel left out.

    Needed where two label sets of one row may overlap.
    """
    row = rows.row_of_entry
    order = np.lexsort((rows.label, rows.previous, rows.position, row))
    key = np.stack([row[order], rows.position[order], rows.previous[order], rows.label[order]])
    first = np.flatnonzero(np.append(True, (key[:, 1:] != key[:, :-1]).any(axis=0))) if len(order) else order
    total = np.add.reduceat(rows.coefficient[order], first) if len(order) else rows.coefficient
    kept = first[total != 0]
    pointer = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(np.bincount(key[0, kept], minlength=len(rows)), out=pointer[1:])
    position, previous, label = (key[i, kept].astype(np.int32) for i in (1, 2, 3))
    return LinearRows(pointer, position, previous, label, total[total != 0], rows.bound, rows.weight, rows.constraint)


def stamped(rows: LinearRows, *, weight: float, constraint: int) -> LinearRows:
    """The same rows at ``weight`` nats (inf: hard) a unit of degree, of constraint ``constraint``."""
    count = len(rows)
    return LinearRows(
        rows.pointer,
        rows.position,
        rows.previous,
        rows.label,
        rows.coefficient,
        rows.bound,
        np.full(count, weight),
        np.full(count, constraint, np.int32),
    )


def selected(rows: LinearRows, chosen: Mask) -> LinearRows:
    """The rows where ``chosen`` (R,) holds."""
    entries = chosen[rows.row_of_entry]
    lengths = np.diff(rows.pointer)[chosen]
    return LinearRows(
        np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]),
        rows.position[entries],
        rows.previous[entries],
        rows.label[entries],
        rows.coefficient[entries],
        rows.bound[chosen],
        rows.weight[chosen],
        rows.constraint[chosen],
    )


def forbidden_labels(position: Ints, labels: Mask) -> LinearRows:
    """One row a position: Σ_{l ∈ labels} 1[y_t = l] ≤ 0, written with as few entries as possible.

    Of more than half the labels the row is 1 − Σ_{l ∉ labels} 1[y_t = l] ≤ 0: the same degree.
    """
    if not len(position):
        return NO_ROWS
    row = np.arange(len(position))
    if 2 * labels.sum() > len(labels):
        return laid_out(np.full(len(position), -1.0), [tokens_in(row, position, ~labels, -1.0)])
    return laid_out(np.zeros(len(position)), [tokens_in(row, position, labels)])


def forbidden_edges(position: Ints, pairs: Mask) -> LinearRows:
    """One row a position: Σ_{(a, b) ∈ pairs} 1[y_{t−1} = a ∧ y_t = b] ≤ 0, in the shorter form."""
    if not len(position):
        return NO_ROWS
    row = np.arange(len(position))
    if 2 * pairs.sum() > pairs.size:
        return laid_out(np.full(len(position), -1.0), [edges_in(row, position, ~pairs, -1.0)])
    return laid_out(np.zeros(len(position)), [edges_in(row, position, pairs)])


def ranges(low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """All integers of low[i] ≤ z < high[i]: the i each belongs to, and z itself."""
    length = np.maximum(high - low, 0)
    total = int(length.sum())
    _guard(total)
    owner = np.repeat(np.arange(len(low)), length)
    first = np.cumsum(length) - length
    return owner, np.arange(total) - first[owner] + low[owner]


def _guard(entries: int) -> None:
    if entries > MOST_ENTRIES:
        raise ConstraintError(
            f"{entries} entries in one document, more than {MOST_ENTRIES}; narrow the constraint "
            "(scope: sentence, a reach, fewer tokens or labels) or split the document"
        )
