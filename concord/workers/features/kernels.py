"""Compiled kernels of the scorer: hashing attribute strings, filling word tables, scoring tokens.

Strings come as code points end to end: ``text`` (uint32) with ``ends`` (exclusive, one a string).
A hash table is ``keys`` (uint64) with ``rows`` (int32, −1 for an empty slot), its size a power of
two. Weights are sparse: row r gives ``weight[i]`` nats to ``label[i]`` for start[r] ≤ i < start[r + 1].
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ints
from concord.workers.compiling.kernel import inlined, kernel, kernel_in_place
from concord.workers.features.extractors import Pieces

_WHOLE, _SUBSTRINGS, _PREFIXES = int(Pieces.WHOLE), int(Pieces.SUBSTRINGS), int(Pieces.PREFIXES)
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)
_ONE = np.uint64(1)
_FREE = np.int32(-1)


class KeyTable(NamedTuple):
    """Hash table of size H, a power of two: ``keys`` (H,) and their ``rows`` (H,), −1 for an empty slot."""

    keys: NDArray[np.uint64]
    rows: NDArray[np.int32]


class SparseWeights(NamedTuple):
    """Weights of R rows: row r gives ``weight[i]`` nats to ``label[i]`` for start[r] ≤ i < start[r + 1].

    ``start`` (R + 1,), ``label`` (F,), ``weight`` (F,)
    """

    start: Ints
    label: NDArray[np.int32]
    weight: Floats


class PieceLengths(NamedTuple):
    """Pieces of a string that are attributes.

    - ``pieces``: the number of a `Pieces`.
    - ``shortest``, ``longest``: lengths, in code points.
    """

    pieces: int
    shortest: int
    longest: int


class Conjunctions(NamedTuple):
    """Places that C conjunctions read: conjunction c those from place_start[c] to place_start[c + 1].

    - ``seeds`` (C,): start of each conjunction's hash.
    - ``place_start`` (C + 1,): first place of each.
    - ``source`` (P,): row of values that a place reads.
    - ``offset`` (P,): tokens from the labelled token to the place.
    """

    seeds: NDArray[np.uint64]
    place_start: Ints
    source: Ints
    offset: Ints


@inlined
def _mix(state: np.uint64, value: Any) -> np.uint64:
    # Invertible in the state for every value: strings that differ in one place never collide.
    state = (state ^ np.uint64(value)) * _FACTOR
    return state ^ (state >> _SHIFT)


@inlined
def _find(keys: NDArray[np.uint64], rows: NDArray[np.int32], key: np.uint64) -> np.int32:
    mask = np.uint64(len(keys)) - _ONE
    slot = key & mask
    while rows[slot] >= 0:
        if keys[slot] == key:
            return np.int32(rows[slot])
        slot = (slot + _ONE) & mask
    return _FREE


@kernel
def build_table(hashes: NDArray[np.uint64], size: int) -> tuple[NDArray[np.uint64], NDArray[np.int32], int]:
    """(keys, rows, clash): row i under hashes[i]; clash is a row whose hash was there, or −1."""
    keys, rows = np.zeros(size, np.uint64), np.full(size, -1, np.int32)
    mask = np.uint64(size) - _ONE
    for i in range(len(hashes)):
        slot = hashes[i] & mask
        while rows[slot] >= 0:
            if keys[slot] == hashes[i]:
                return keys, rows, i
            slot = (slot + _ONE) & mask
        keys[slot], rows[slot] = hashes[i], i
    return keys, rows, -1


@inlined
def _hash(state: np.uint64, items: Any, begin: int, end: int) -> np.uint64:
    for i in range(begin, end):
        state = _mix(state, items[i])
    return state


@kernel
def hash_runs(seeds: NDArray[np.uint64], items: Any, ends: Ints) -> NDArray[np.uint64]:
    """(n,) uint64 hash of each run of items, from its own seed.

    Items are code points of strings, or value ids as `add_conjunctions` hashes them.
    """
    hashes = np.empty(len(ends), np.uint64)
    begin = 0
    for i in range(len(ends)):
        hashes[i] = _hash(seeds[i], items, begin, ends[i])
        begin = ends[i]
    return hashes


@kernel
def find_texts(
    seed: np.uint64, text: NDArray[np.uint32], ends: Ints, keys: NDArray[np.uint64], rows: NDArray[np.int32]
) -> NDArray[np.int32]:
    """(n,) int32 row of each string in the table, −1 where it is not there."""
    found = np.empty(len(ends), np.int32)
    begin = 0
    for i in range(len(ends)):
        found[i] = _find(keys, rows, _hash(seed, text, begin, ends[i]))
        begin = ends[i]
    return found


@kernel_in_place
def add_rows(out: Floats, found: NDArray[np.int32], start: Ints, label: NDArray[np.int32], weight: Floats) -> None:
    """Adds weight row found[i] to out[i], (n, L); nothing where found is −1."""
    for i in range(len(found)):
        if found[i] >= 0:
            for f in range(start[found[i]], start[found[i] + 1]):
                out[i, label[f]] += weight[f]


@kernel
def add_pieces(
    out: Floats,
    text: NDArray[np.uint32],
    ends: Ints,
    seed: np.uint64,
    lengths: PieceLengths,
    table: KeyTable,
    weights: SparseWeights,
) -> None:
    """Adds to out[i] (n, L) the weights of all distinct pieces of string i, see `Pieces`."""
    pieces, shortest, longest = lengths
    start, label, weight = weights
    seen = np.full(len(start), -1, np.int32)
    begin = 0
    for i in range(len(ends)):
        end = ends[i]
        first = max(begin, end - longest) if pieces > _PREFIXES else begin
        last = begin + 1 if pieces == _PREFIXES else end
        for j in range(first, min(last, end)):
            state = seed
            for k in range(j, min(end, j + longest)):
                state = _mix(state, text[k])
                if k + 1 - j < shortest or (pieces > _PREFIXES and k + 1 < end):
                    continue
                row = _find(table.keys, table.rows, state)
                if row >= 0 and seen[row] != i:
                    seen[row] = i
                    for f in range(start[row], start[row + 1]):
                        out[i, label[f]] += weight[f]
        begin = end


@kernel_in_place
def add_singles(unary: Floats, ids: NDArray[np.int32], bounds: Ints, offsets: Ints, tables: Floats) -> None:
    """Adds tables[k, ids[t + offsets[k]]] to unary[t] (N, L); ids 0 and 1 lie before and after the sentence."""
    width = unary.shape[1]
    for s in range(len(bounds) - 1):
        for t in range(bounds[s], bounds[s + 1]):
            for k in range(len(offsets)):
                place = t + offsets[k]
                word = 0 if place < bounds[s] else 1 if place >= bounds[s + 1] else ids[place]
                for y in range(width):
                    unary[t, y] += tables[k, word, y]


@kernel_in_place
def add_window(
    unary: Floats, ids: NDArray[np.int32], bounds: Ints, first: int, last: int, found: NDArray[np.int32], table: Floats
) -> None:
    """Adds to unary[t] (N, L) the rows of the distinct attributes found[ids[u]], t + first ≤ u ≤ t + last."""
    width = unary.shape[1]
    for s in range(len(bounds) - 1):
        for t in range(bounds[s], bounds[s + 1]):
            left = max(t + first, bounds[s])
            for u in range(left, min(t + last + 1, bounds[s + 1])):
                row = found[ids[u]]
                new = row >= 0
                for v in range(left, u):
                    new = new and found[ids[v]] != row
                if new:
                    for y in range(width):
                        unary[t, y] += table[ids[u], y]


@kernel_in_place
def add_conjunctions(
    unary: Floats,
    values: NDArray[np.int32],
    outside: NDArray[np.int32],
    bounds: Ints,
    conjunctions: Conjunctions,
    table: KeyTable,
    weights: SparseWeights,
) -> None:
    """Adds the weights of all conjunctions to unary (N, L).

    - ``values`` (E, N): value ids by source and token, −1 where no conjunction of the model has the value.
    - ``outside`` (E, 2): value ids before and after a sentence.
    """
    seeds, place_start, place_source, place_offset = conjunctions
    start, label, weight = weights
    for s in range(len(bounds) - 1):
        for t in range(bounds[s], bounds[s + 1]):
            for c in range(len(seeds)):
                state, known = seeds[c], True
                for p in range(place_start[c], place_start[c + 1]):
                    u = t + place_offset[p]
                    source = place_source[p]
                    if u < bounds[s]:
                        value = outside[source, 0]
                    elif u >= bounds[s + 1]:
                        value = outside[source, 1]
                    else:
                        value = values[source, u]
                    if value < 0:
                        known = False
                        break
                    state = _mix(state, value)
                if not known:
                    continue
                row = _find(table.keys, table.rows, state)
                if row >= 0:
                    for f in range(start[row], start[row + 1]):
                        unary[t, label[f]] += weight[f]


@kernel_in_place
def hash_segments(
    hashes: NDArray[np.uint64],
    repeats: NDArray[np.bool_],
    start: Ints,
    size: Ints,
    seed: np.uint64,
    found: NDArray[np.uint64],
) -> None:
    """Writes to found[i] the hash of ``size[i]`` tokens from ``start[i]`` on, of their own ``hashes`` (N,).

    A token that ``repeats`` (N,) the one before it adds nothing to that one.
    """
    for i in range(len(start)):
        state = seed
        for t in range(start[i], start[i] + size[i]):
            if t == start[i] or not repeats[t]:
                state = _mix(state, hashes[t])
        found[i] = state


@kernel_in_place
def find_segments(
    hashes: NDArray[np.uint64],
    repeats: NDArray[np.bool_],
    bounds: Ints,
    seed: np.uint64,
    keys: NDArray[np.uint64],
    rows: NDArray[np.int32],
    found: NDArray[np.int32],
) -> None:
    """Writes to found[t, n − 1] (N, M) the row of the segment of n tokens from t on, by `hash_segments`.

    −1 where the table does not have it, or the sentence ends before.
    """
    for s in range(len(bounds) - 1):
        for t in range(bounds[s], bounds[s + 1]):
            state = seed
            for n in range(found.shape[1]):
                found[t, n] = _FREE
            for u in range(t, min(t + found.shape[1], bounds[s + 1])):
                if u == t or not repeats[u]:
                    state = _mix(state, hashes[u])
                found[t, u - t] = _find(keys, rows, state)
