"""Mentions of one name as a group: where they are, and a local search that gives all of them one type.

A sampler seldom turns all mentions of a name at once, least of all when their spans have to change with
that ("Washington" in "MaliVai Washington"). What it found is settled here: all sentences by block
descent, then name by name under each type, each followed by block descent, as long as that pays.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.labels import Labels, Scheme
from schemas.problem import Problem
from workers.inference.agreement import AgreementState, empty_state
from workers.inference.block_descent import LEAST_GAIN, descend, relabel, start_at
from workers.inference.relaxation import chains_of
from workers.inference.relaxation_kernels import memberships
from workers.inference.spans import CandidateSpans, candidate_spans


class Groups(NamedTuple):
    """Start and end of each group's places (P, 2), the groups' bounds (Q + 1,), and which may be left out (Q,)."""

    places: NDArray[np.int64]
    pointer: NDArray[np.int64]
    may_leave: NDArray[np.bool_]


def places_of(spans: CandidateSpans) -> NDArray[np.int64]:
    """(M, 2) start and end of every candidate span, ordered, each once."""
    return np.unique(np.stack([spans.start, spans.end], 1), axis=0).astype(np.int64)


def groups_of(problem: Problem, spans: AgreementState, places: NDArray[np.int64]) -> Groups:
    """The places of each key that has several, and, where longer places hold that key, those with it.

    Only in BIO, where spans of any types can stand side by side.
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
    kin = members[np.isin(members[:, 1], members[members[:, 3] > 0, 1])]
    bounds = [_bounds(part[:, 1]) for part in (exact, kin)]
    kept = [part[np.repeat(np.diff(ends) > 1, np.diff(ends))] for part, ends in zip((exact, kin), bounds, strict=True)]
    ends = [_bounds(part[:, 1]) for part in kept]
    pointer = np.append(ends[0], ends[0][-1] + ends[1][1:]).astype(np.int64)
    may_leave = np.arange(len(pointer) - 1) < len(ends[0]) - 1
    return Groups(places[np.concatenate([part[:, 0] for part in kept])], pointer, may_leave)


def _bounds(names: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bounds of the runs of equal names (M,) in an ordered array."""
    return np.append(np.unique(names, return_index=True)[1], len(names)).astype(np.int64)


def settled(problem: Problem, labels: Labels, *, most_loss: float, hard_weight: float) -> Labels:
    """The best labelling met from ``labels`` (N,) on, with spans that lose at most ``most_loss`` nats locally.

    Rows are not seen by the moves but by what is kept. ``hard_weight`` stands for infinite costs.
    """
    if not problem.agreements:
        return labels
    state, spans = empty_state(problem, hard_weight), candidate_spans(problem, most_loss)
    groups = groups_of(problem, state, places_of(spans))
    best, objective = labels, problem.score(labels).objective
    descent = start_at(chains_of(problem, spans), state, labels.astype(np.int32))

    def offer() -> None:
        nonlocal best, objective
        # Rows cost something more, if anything.
        if descend(descent) > objective + LEAST_GAIN:
            value = problem.score(descent.labels).objective
            if value > objective + LEAST_GAIN:
                best, objective = descent.labels.copy(), value

    offer()
    relabel(descent, best)
    kinds = _kinds(problem, best, groups.places)
    for first, last in zip(groups.pointer[:-1].tolist(), groups.pointer[1:].tolist(), strict=True):
        mentioned = kinds[first:last] >= 0
        if (kinds[first:last][mentioned] == kinds[first:last].max()).all():
            continue
        mentions, before = groups.places[first:last][mentioned], best
        seen = descent.seen.copy()
        for kind in range(len(problem.labels.types)):
            relabel(descent, _retyped(problem, before, mentions, kind))
            offer()
            relabel(descent, before)
            descent.seen[:] = seen
        if best is not before:
            relabel(descent, best)
            kinds = _kinds(problem, best, groups.places)
    return best


def _kinds(problem: Problem, labels: Labels, places: NDArray[np.int64]) -> NDArray[np.int32]:
    """(P,) the type of the span labelled at each place (P, 2), −1 where none is."""
    spans = problem.labels.spans(labels, problem.potentials.sentence_starts)
    step = len(problem) + 1
    labelled, wanted = spans.start * step + spans.end, places[:, 0] * step + places[:, 1]
    at = np.minimum(np.searchsorted(labelled, wanted), max(len(spans) - 1, 0))
    found = labelled[at] == wanted if len(spans) else np.zeros(len(places), np.bool_)
    return np.where(found, spans.type[at] if len(spans) else 0, -1).astype(np.int32)


def _retyped(problem: Problem, labels: Labels, mentions: NDArray[np.int64], kind: int) -> Labels:
    changed = labels.copy()
    for start, end in mentions.tolist():
        changed[start] = problem.labels.opening[kind]
        changed[start + 1 : end] = problem.labels.inside[kind]
    return changed
