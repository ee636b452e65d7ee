"""Building of `LinearRows` from whole arrays of positions: only this module lays out entries.

A template drafts its rows for a batch of documents at once, and `laid_out` writes the rows of all templates document by
document. Every helper below works on M places at once; a place is a row and a position. A *pair mask* (L, L) marks the
edges 1[y_{t−1} = a ∧ y_t = b] that count, a *label mask* (L,) the labels that count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ints, Mask
from concord.schemas.errors import InputError
from concord.schemas.problem import ANY, LinearRows
from concord.workers.compiling.interpreted import runnable
from concord.workers.compiling.kernel import kernel

Number = TypeVar("Number", np.int64, np.float64)


class ConstraintError(InputError):
    """A constraint that does not fit its labels or its document; the message says what to change."""


NO_ROWS = LinearRows.none()
"""The rows of a document without any: one object for all such documents."""


class Part(NamedTuple):
    """Entries of some rows: the same P edges at each of M places, with the place's own coefficient.

    - ``row`` (M,): row of each place.
    - ``position`` (M,): token in the batch.
    - ``coefficient`` (M,): coefficient of the place.
    - ``before`` (P,): label before each edge, or `ANY` for a token label.
    - ``after`` (P,): label after each edge.
    - ``sign`` (P,): factor of each edge; the coefficient of an entry is the place's times this.
    """

    row: Ints
    position: Ints
    coefficient: Floats
    before: Ints
    after: Ints
    sign: Ints


class Draft(NamedTuple):
    """R rows Σ ≤ bound of a batch.

    - ``home`` (R,): a token of each row's document.
    - ``bound`` (R,): bound of each row.
    - ``parts``: the entries.

    The entries of one row keep the order of the parts. No edge may occur twice in a row.
    """

    home: Ints
    bound: Floats | Ints
    parts: tuple[Part, ...]


class WeightedDraft(NamedTuple):
    """A draft with its weight.

    - ``draft``: the rows.
    - ``weight``: nats for each unit of degree; inf: hard.
    - ``constraint``: index of the constraint.
    """

    draft: Draft
    weight: float
    constraint: int


def tokens_in(row: Ints, position: Ints, labels: Mask, coefficient: float | Ints | Floats = 1.0) -> Part:
    """coefficient · Σ_{l ∈ labels} 1[y_position = l] at each of the M places; the coefficient is a scalar or (M,)."""
    after = np.flatnonzero(labels)
    any_label, plus = np.full(len(after), ANY, np.int64), np.ones(len(after), np.int64)
    return Part(row, position, _spread(coefficient, len(position)), any_label, after, plus)


def edges_in(row: Ints, position: Ints, pairs: Mask, coefficient: float | Ints | Floats = 1.0) -> Part:
    """coefficient · Σ_{(a, b) ∈ pairs} 1[y_{position−1} = a ∧ y_position = b] at each of the M places.

    It is written with as few entries as possible: a label b that counts after most labels becomes an `ANY` entry, minus
    entries for the labels after which it does not. No position may start a sentence.
    """
    times = pairs.sum(axis=0)
    mostly = times > 1 + len(pairs) - times
    whole = np.flatnonzero(mostly)
    before, after = np.nonzero(pairs ^ mostly)
    return Part(
        row,
        position,
        _spread(coefficient, len(position)),
        np.concatenate([np.full(len(whole), ANY, np.int64), before]),
        np.concatenate([whole, after]),
        np.concatenate([np.ones(len(whole), np.int64), np.where(mostly[after], -1, 1)]),
    )


def _spread(coefficient: float | Ints | Floats, count: int) -> Floats:
    if isinstance(coefficient, np.ndarray):
        return coefficient.astype(np.float64)
    return np.full(count, float(coefficient))


def forbidden_labels(position: Ints, labels: Mask) -> Draft:
    """One row for each position: Σ_{l ∈ labels} 1[y_t = l] ≤ 0, written with as few entries as possible.

    With more than half of the labels the row is 1 − Σ_{l ∉ labels} 1[y_t = l] ≤ 0, which has the same degree.
    """
    row = np.arange(len(position))
    if 2 * labels.sum() > len(labels):
        return Draft(position, np.full(len(position), -1.0), (tokens_in(row, position, ~labels, -1.0),))
    return Draft(position, np.zeros(len(position)), (tokens_in(row, position, labels),))


def forbidden_edges(position: Ints, pairs: Mask) -> Draft:
    """One row for each position: Σ_{(a, b) ∈ pairs} 1[y_{t−1} = a ∧ y_t = b] ≤ 0, in the shorter form."""
    row = np.arange(len(position))
    if 2 * pairs.sum() > pairs.size:
        return Draft(position, np.full(len(position), -1.0), (edges_in(row, position, ~pairs, -1.0),))
    return Draft(position, np.zeros(len(position)), (edges_in(row, position, pairs),))


def always(home: Ints) -> Draft:
    """Antecedents that every labelling has, for rows with these homes (R,)."""
    return Draft(home, np.full(len(home), -1.0), ())


def wherever(home: Ints, parts: Sequence[Part]) -> Draft:
    """Antecedents for rows with these homes (R,): a labelling has one if its sum over the parts is above 0."""
    return Draft(home, np.zeros(len(home)), tuple(parts))


def joined(drafts: Sequence[Draft]) -> Draft:
    """All rows of the drafts as one draft, in their order."""
    parts: list[Part] = []
    shift = 0
    for draft in drafts:
        parts += [part._replace(row=part.row + shift) for part in draft.parts]
        shift += len(draft.home)
    home = np.concatenate([draft.home for draft in drafts])
    return Draft(home, np.concatenate([draft.bound for draft in drafts]), tuple(parts))


def laid_out(drafts: Sequence[WeightedDraft], document_of: Ints, doc_starts: Ints) -> list[LinearRows]:
    """The rows of all drafts for each of D documents, with positions counted from the document's first token.

    ``document_of`` (N,) is the document of each token of the batch; ``doc_starts`` (D + 1,) are the first tokens of
    documents, then N. A document's rows keep the order of the drafts, and the order within each.
    """
    full = [weighed for weighed in drafts if len(weighed.draft.home)]
    if not full:
        return [NO_ROWS] * (len(doc_starts) - 1)
    sizes = [len(weighed.draft.home) for weighed in full]
    shifts = np.cumsum([0, *sizes])
    parts = [(part, shift) for weighed, shift in zip(full, shifts, strict=False) for part in weighed.draft.parts]
    order, row_ends, pointer, position, previous, label, coefficient = runnable(_laid_out)(
        document_of[np.concatenate([weighed.draft.home for weighed in full])],
        doc_starts,
        PartPlaces(
            np.cumsum([len(part.row) for part, _ in parts], dtype=np.int64),
            np.array([shift for _, shift in parts], np.int64),
            _end_to_end([part.row for part, _ in parts], np.int64),
            _end_to_end([part.position for part, _ in parts], np.int64),
            _end_to_end([part.coefficient for part, _ in parts], np.float64),
        ),
        PartEdges(
            np.cumsum([len(part.after) for part, _ in parts], dtype=np.int64),
            _end_to_end([part.before for part, _ in parts], np.int64),
            _end_to_end([part.after for part, _ in parts], np.int64),
            _end_to_end([part.sign for part, _ in parts], np.int64),
        ),
    )
    bound = np.concatenate([weighed.draft.bound for weighed in full], dtype=np.float64)[order]
    weight = np.repeat([weighed.weight for weighed in full], sizes)[order]
    constraint = np.repeat(np.array([weighed.constraint for weighed in full], np.int32), sizes)[order]
    rows, first = [], 0
    for last in row_ends.tolist():
        if first == last:
            rows.append(NO_ROWS)
            continue
        own, entries = slice(first, last), slice(int(pointer[first]), int(pointer[last]))
        rows.append(
            LinearRows(
                pointer[first : last + 1] - pointer[first],
                position[entries],
                previous[entries],
                label[entries],
                coefficient[entries],
                bound[own],
                weight[own],
                constraint[own],
            )
        )
        first = last
    return rows


def _end_to_end(arrays: Sequence[NDArray[Number]], kind: type[Number]) -> NDArray[Number]:
    # If no row has a part, there is no array to join.
    return np.concatenate([np.zeros(0, kind), *arrays])


class PartPlaces(NamedTuple):
    """Places of K parts, end to end: those of part k end at end[k].

    - ``end`` (K,): exclusive.
    - ``shift`` (K,): number of the part's first row among all rows.
    - ``row`` (M,): row of each place, counted from that.
    - ``position`` (M,): token.
    - ``times`` (M,): coefficient.
    """

    end: Ints
    shift: Ints
    row: Ints
    position: Ints
    times: Floats


class PartEdges(NamedTuple):
    """Edges that K parts count at each of their places, end to end: those of part k end at end[k].

    - ``end`` (K,): exclusive.
    - ``before`` (E,): label before the token, or `ANY`.
    - ``after`` (E,): label of the token.
    - ``sign`` (E,): 1, or −1 where the edge counts against.
    """

    end: Ints
    before: Ints
    after: Ints
    sign: Ints


@kernel
def _laid_out(
    document: Ints, doc_starts: Ints, places: PartPlaces, edges: PartEdges
) -> tuple[Ints, Ints, Ints, NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], Floats]:
    """Rows sorted by document: their numbers (R,), the ends of documents (D,), pointers (R + 1,), and entries."""
    place_end, shift, row, position, times = places
    edge_end, before, after, sign = edges
    count = len(document)
    row_ends = np.zeros(len(doc_starts), np.int64)
    for r in range(count):
        row_ends[document[r] + 1] += 1
    row_ends = np.cumsum(row_ends)
    following = row_ends[:-1].copy()
    place_of, order = np.empty(count, np.int64), np.empty(count, np.int64)
    for r in range(count):
        place_of[r] = following[document[r]]
        order[place_of[r]] = r
        following[document[r]] += 1
    pointer = np.zeros(count + 1, np.int64)
    place, edge = 0, 0
    for part in range(len(place_end)):
        for m in range(place, place_end[part]):
            pointer[place_of[row[m] + shift[part]] + 1] += edge_end[part] - edge
        place, edge = place_end[part], edge_end[part]
    pointer = np.cumsum(pointer)
    at = pointer[:count].copy()
    total = pointer[count]
    positions, previous, label = np.empty(total, np.int32), np.empty(total, np.int32), np.empty(total, np.int32)
    coefficient = np.empty(total, np.float64)
    place, edge = 0, 0
    for part in range(len(place_end)):
        for m in range(place, place_end[part]):
            r = row[m] + shift[part]
            e = at[place_of[r]]
            at[place_of[r]] += edge_end[part] - edge
            t = position[m] - doc_starts[document[r]]
            for k in range(edge, edge_end[part]):
                positions[e] = t
                previous[e] = before[k]
                label[e] = after[k]
                coefficient[e] = times[m] * sign[k]
                e += 1
        place, edge = place_end[part], edge_end[part]
    return order, row_ends[1:], pointer, positions, previous, label, coefficient


def selected(rows: LinearRows, mask: Mask) -> LinearRows:
    """The rows that ``mask`` (R,) marks."""
    entries = mask[rows.row_of_entry]
    lengths = np.diff(rows.pointer)[mask]
    return LinearRows(
        np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]),
        rows.position[entries],
        rows.previous[entries],
        rows.label[entries],
        rows.coefficient[entries],
        rows.bound[mask],
        rows.weight[mask],
        rows.constraint[mask],
    )
