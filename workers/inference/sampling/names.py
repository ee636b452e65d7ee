"""Occurrences of the same words as a group, whose labels should change together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.labels import Scheme
from schemas.problem import Problem
from workers.inference.core.agreement import AgreementState
from workers.inference.core.spans import CandidateSpans
from workers.inference.relaxation.ascent import memberships


class Groups(NamedTuple):
    """The groups' occurrences, (P, 2) start and end; those of group q are ``pointer[q]:pointer[q + 1]`` (Q + 1,).

    ``may_leave`` (Q,) says in which groups all occurrences may be left outside.
    """

    places: NDArray[np.int64]
    pointer: NDArray[np.int64]
    may_leave: NDArray[np.bool_]


def places_of(spans: CandidateSpans) -> NDArray[np.int64]:
    """(M, 2) start and end of every candidate span, ordered, each once."""
    return np.unique(np.stack([spans.start, spans.end], 1), axis=0).astype(np.int64)


def groups_of(problem: Problem, spans: AgreementState, places: NDArray[np.int64]) -> Groups:
    """A group for each key that occurs several times and, where longer ``places`` (M, 2) contain it, one with these.

    The former may be left out. None outside BIO: only there can spans of any types stand side by side.
    """
    if problem.labels.scheme is not Scheme.BIO:
        return Groups(np.zeros((0, 2), np.int64), np.zeros(1, np.int64), np.zeros(0, np.bool_))
    start, end = np.ascontiguousarray(places.T)
    members = memberships(spans, start, end, np.zeros(len(places), np.int64))
    members = members[np.lexsort((members[:, 0], members[:, 1]))]
    exact = members[members[:, 3] == 0]
    # Of places that overlap the first is kept: left out together they could not all be labelled again.
    follows = exact[1:, 1] == exact[:-1, 1]
    clear = places[exact[1:, 0], 0] >= places[exact[:-1, 0], 1]
    exact = exact[np.append(True, ~follows | clear)[: len(exact)]]
    containing = members[np.isin(members[:, 1], members[members[:, 3] > 0, 1])]
    bounds = [_bounds(part[:, 1]) for part in (exact, containing)]
    kept = [
        part[np.repeat(np.diff(ends) > 1, np.diff(ends))]
        for part, ends in zip((exact, containing), bounds, strict=True)
    ]
    ends = [_bounds(part[:, 1]) for part in kept]
    pointer = np.append(ends[0], ends[0][-1] + ends[1][1:]).astype(np.int64)
    may_leave = np.arange(len(pointer) - 1) < len(ends[0]) - 1
    return Groups(places[np.concatenate([part[:, 0] for part in kept])], pointer, may_leave)


def _bounds(names: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bounds of the runs of equal names (M,) in an ordered array."""
    return np.append(np.unique(names, return_index=True)[1], len(names)).astype(np.int64)
