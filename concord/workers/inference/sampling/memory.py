"""Invalidation of cached costs: each one is listed under the keys of the counts that it was computed from.

A cost that is computed at a token is noted under every key whose counts were read, and becomes stale when one of these
counts changes. Invariant: the tokens listed under a key are exactly those that read it since its count last changed,
because marking them stale removes them. So invalidating takes no more time than computing did, however often the words
occur.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ints
from concord.schemas.labels import Labels
from concord.schemas.problem import NO_KEY
from concord.workers.compiling.kernel import inner_in_place
from concord.workers.inference.core.agreement import CONTAINED, DIFFERENT, AgreementState, Codec, item_end, key_bounds
from concord.workers.inference.sampling.labelling import Labelling, region

UNKNOWN_COST = np.inf

LABELLED, AROUND = 0, 1
"""The two counts of a key: spans that have it (LABELLED); longer spans around it, and occurrences left out (AROUND)."""


class Readers(NamedTuple):
    """The places where the counts of each key were read, for G key tables, K keys of widths up to W and N tokens.

    - ``bounds`` (G, K + 1): start of each key's part of ``place``.
    - ``place`` (2, G, P + N): the readers of each count, as token · (W + 1) + width − 1.
    - ``sizes`` (2, G, K + 1): number of readers of each count.
    - ``known`` (2, G, N · (W + 1)): mask of the places that are listed.
    - ``parts`` (G,): mask of the tables for which parts of spans are compared.
    - ``all`` (G,): mask of the tables for which spans with any key are compared.
    - ``stale`` (N,): tokens with a stale cost, in the first ``stale_count`` (1,) places.
    - ``is_stale`` (N,): mask of these tokens.

    The readers of count ``what`` of key k of table g are the first ``sizes[what, g, k]`` of ``place[what, g, bounds[g,
    k]:]``. Key K stands for all keys together, which `Relation.DIFFERENT` reads.
    """

    bounds: Ints
    place: Ints
    sizes: Ints
    known: NDArray[np.bool_]
    parts: NDArray[np.bool_]
    all: NDArray[np.bool_]
    stale: Ints
    stale_count: Ints
    is_stale: NDArray[np.bool_]


def readers_for(state: AgreementState) -> Readers:
    """Empty arrays, large enough for everything that may be read."""
    tables, count, width = state.keys.shape
    ends = key_bounds(state)
    tops = ends.max(initial=0) + count
    contained, different = (
        np.isin(np.arange(tables), state.table[state.relation == relation]) for relation in (CONTAINED, DIFFERENT)
    )
    return Readers(
        ends,
        np.zeros((2, tables, tops), np.int64),
        np.zeros((2, *ends.shape), np.int64),
        np.zeros((2, tables, count * (width + 1)), np.bool_),
        contained,
        different,
        np.zeros(count, np.int64),
        np.zeros(1, np.int64),
        np.zeros(count, np.bool_),
    )


@inner_in_place
def note_labels(readers: Readers, state: AgreementState, codec: Codec, labels: Labels, first: int, last: int) -> None:
    """Notes all keys whose counts give the cost of ``labels[first:last]``; no span may be cut."""
    t = first
    while t < last:
        end = item_end(codec.continues, codec.opens_sentence, labels, t, last)
        if codec.type_of[labels[t]] < 0:
            note_outside(readers, state, t)
        else:
            note_span(readers, state, t, end)
        t = end


@inner_in_place
def note_outside(readers: Readers, state: AgreementState, t: int) -> None:
    """Notes the keys whose counts `outside_cost` reads for token t."""
    for g in state.watched:
        for width in range(state.reach[g, t]):
            _note(readers, LABELLED, g, state.keys[g, t, width], _place(state, t, width))


@inner_in_place
def note_span(readers: Readers, state: AgreementState, start: int, end: int) -> None:
    """Notes the keys whose counts `span_cost` reads for a span."""
    length, widest = end - start, state.keys.shape[2]
    for g in range(len(state.keys) if length <= widest else 0):
        key, place = state.keys[g, start, length - 1], _place(state, start, length - 1)
        _note(readers, LABELLED, g, key, place)
        _note(readers, AROUND, g, key, place)
        if readers.all[g]:
            _note(readers, LABELLED, g, readers.bounds.shape[1] - 1, _place(state, start, widest))
        for width in range(length - 1 if readers.parts[g] else 0):
            for at in range(start, end - width):
                _note(readers, LABELLED, g, state.keys[g, at, width], _place(state, at, width))


@inner_in_place
def _place(state: AgreementState, t: int, width: int) -> int:
    return int(t * (state.keys.shape[2] + 1) + width)


@inner_in_place
def _note(readers: Readers, what: int, g: int, key: int, place: int) -> None:
    """Lists a place among the readers of a key, once."""
    if key != NO_KEY and not readers.known[what, g, place]:
        readers.known[what, g, place] = True
        readers.place[what, g, readers.bounds[g, key] + readers.sizes[what, g, key]] = place
        readers.sizes[what, g, key] += 1


@inner_in_place
def mark_stale(readers: Readers, state: AgreementState, codec: Codec, labels: Labels, first: int, last: int) -> None:
    """Adds to ``stale`` the readers of all counts that ``labels[first:last]`` take part in; no span may be cut."""
    t = first
    while t < last:
        end = item_end(codec.continues, codec.opens_sentence, labels, t, last)
        if codec.type_of[labels[t]] < 0:
            for g in state.watched:
                for width in range(state.reach[g, t]):
                    _mark_key(readers, AROUND, g, state.keys[g, t, width])
        elif end - t <= state.keys.shape[2]:
            for g in range(len(state.keys)):
                _mark_key(readers, LABELLED, g, state.keys[g, t, end - t - 1])
                if readers.all[g]:
                    _mark_key(readers, LABELLED, g, readers.bounds.shape[1] - 1)
                for width in range(end - t - 1 if readers.parts[g] else 0):
                    for start in range(t, end - width):
                        _mark_key(readers, AROUND, g, state.keys[g, start, width])
        t = end


@inner_in_place
def _mark_key(readers: Readers, what: int, g: int, key: int) -> None:
    if key == NO_KEY:
        return
    step = readers.known.shape[2] // len(readers.stale)
    for i in range(readers.sizes[what, g, key]):
        place = readers.place[what, g, readers.bounds[g, key] + i]
        readers.known[what, g, place] = False
        if not readers.is_stale[place // step]:
            readers.is_stale[place // step] = True
            readers.stale[readers.stale_count[0]] = place // step
            readers.stale_count[0] += 1
    readers.sizes[what, g, key] = 0


@inner_in_place
def forget_readers(
    readers: Readers, state: AgreementState, at: Labelling, cost_bound: Floats, first: int, last: int
) -> None:
    """Forgets every cost that was read from counts that the labels at ``first:last`` take part in."""
    mark_stale(readers, state, at.codec, at.labels, first, last)
    for i in range(readers.stale_count[0]):
        readers.is_stale[readers.stale[i]] = False
        forget_around(at, cost_bound, readers.stale[i], readers.stale[i] + 1)
    readers.stale_count[0] = 0


@inner_in_place
def forget_around(at: Labelling, cost_bound: Floats, first: int, last: int) -> None:
    """Forgets ``cost_bound`` at ``first:last``, and at the tokens of spans that reach into it or stand beside it."""
    low, high = region(at, first, last)
    cost_bound[max(0, low - 1) : high + 1] = UNKNOWN_COST
