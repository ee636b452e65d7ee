"""The places where a sampler changes several labels at once: spans, and occurrences of the same words as a group."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Ints
from concord.schemas.labels import Scheme
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.spans import CandidateSpans, candidate_spans
from concord.workers.inference.relaxation.ascent import GROUP, ROLE, SPAN, memberships


class Groups(NamedTuple):
    """Groups of occurrences of the same words.

    - ``places`` (P, 2): start and end of each occurrence.
    - ``pointer`` (Q + 1,): the occurrences of group q are ``pointer[q]:pointer[q + 1]``.
    - ``may_leave`` (Q,): mask of the groups whose occurrences may all be left outside.
    """

    places: NDArray[np.int64]
    pointer: NDArray[np.int64]
    may_leave: NDArray[np.bool_]


class Sites(NamedTuple):
    """The places of one document where a sampler changes several labels at once.

    - ``spans``: the spans that the local model could see.
    - ``places`` (M, 2): their distinct starts and ends, in order.
    - ``groups``: occurrences of the same words.

    Which spans are listed depends on the label scheme. BIO: all of them. In a plain label set every run of a label is a
    span, so single labels can move its ends: spans are listed only if the problem has agreements. Loose labels write a
    span in two ways, of which a slot could hold only one: no spans are listed, and labels change alone.
    """

    spans: CandidateSpans
    places: NDArray[np.int64]
    groups: Groups


def sites_of(problem: Prepared, most_loss: float) -> Sites:
    """The sites of a document; its spans are those that lose at most ``most_loss`` nats."""
    scheme = problem.labels.scheme
    matters = scheme is Scheme.BIO or (scheme is Scheme.PLAIN and bool(problem.agreements))
    spans = candidate_spans(problem, most_loss) if matters else CandidateSpans.none()
    places = np.unique(np.stack([spans.start, spans.end], 1), axis=0).astype(np.int64)
    return Sites(spans, places, _groups(problem, places))


def _groups(problem: Prepared, places: NDArray[np.int64]) -> Groups:
    """Two groups of ``places`` (M, 2) for a key: its occurrences, and these with the longer places that contain it.

    There is a group of the first kind if the key occurs several times; it may be left out where the label set has a
    label for that. There is one of the second kind if a longer place contains the key. There are none outside BIO: only
    there can spans of any types stand side by side.
    """
    if problem.labels.scheme is not Scheme.BIO:
        return Groups(np.zeros((0, 2), np.int64), np.zeros(1, np.int64), np.zeros(0, np.bool_))
    start, end = np.ascontiguousarray(places.T)
    members = memberships(problem.uncounted, start, end, np.zeros(len(places), np.int64))
    members = members[np.lexsort((members[:, SPAN], members[:, GROUP]))]
    exact = members[members[:, ROLE] == 0]
    exact = exact[_clear(exact[:, GROUP], start[exact[:, SPAN]], end[exact[:, SPAN]])]
    containing = members[np.isin(members[:, GROUP], members[members[:, ROLE] > 0, GROUP])]
    # A key that names several lengths can belong to a place and to a part of it; the place is listed once.
    again = (np.diff(containing[:, [GROUP, SPAN]], axis=0) == 0).all(axis=1)
    containing = containing[np.append(True, ~again)[: len(containing)]]
    bounds = [_bounds(part[:, GROUP]) for part in (exact, containing)]
    parts = [
        part[np.repeat(np.diff(ends) > 1, np.diff(ends))]
        for part, ends in zip((exact, containing), bounds, strict=True)
    ]
    ends = [_bounds(part[:, GROUP]) for part in parts]
    pointer = np.append(ends[0], ends[0][-1] + ends[1][1:]).astype(np.int64)
    leaving = len(ends[0]) - 1 if len(problem.codec.outside) else 0
    may_leave = np.arange(len(pointer) - 1) < leaving
    return Groups(places[np.concatenate([part[:, SPAN] for part in parts])], pointer, may_leave)


def _clear(group: Ints, start: Ints, end: Ints) -> NDArray[np.bool_]:
    """(M,) mask of the places that begin after all earlier ones of their group have ended; groups are sorted by start.

    The other places stay as they are: if overlapping places were left out together, they could not all be labelled
    again.
    """
    if not len(group):
        return np.zeros(0, np.bool_)
    first = np.append(True, group[1:] != group[:-1])
    shift = (np.cumsum(first) - 1) * int(end.max())
    reached: Ints = np.maximum.accumulate(end + shift)
    clear: NDArray[np.bool_] = first | np.append(True, (start + shift)[1:] >= reached[:-1])
    return clear


def _bounds(names: NDArray[np.int64]) -> NDArray[np.int64]:
    """Start of each run of equal ``names`` (M,) in an ordered array, with M at the end."""
    return np.append(np.unique(names, return_index=True)[1], len(names)).astype(np.int64)
