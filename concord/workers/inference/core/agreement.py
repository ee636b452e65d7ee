"""Span-agreement costs kept up to date span by span: counts of labelled spans by key and type, in numba.

An engine that changes labels step by step keeps an `AgreementState`: it adds and removes spans, and asks what one more
span would cost. With c_{ab} nats for a pair of types and n_b counted spans of type b, a span of type a costs
Σ_b c_{ab} · n_b. Which spans n_b counts depends on the agreement's `Relation`:

- `EXACT`: spans with the same key;
- `CONTAINED`: longer spans around its key, and its own parts;
- `DIFFERENT`: spans with any other key;
- `UNLABELLED`: occurrences of its key that are labelled outside.

A look-up takes time in the length of the span, not of the document. This is the memoisation that Finkel et al. (2005)
§5 describe, over interned span keys.

Invariant: the counts are those of the spans and outside labels that were added and not removed again. So the cost of a
whole labelling (`labels_cost`) is the sum of what each item costs just before it is added.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.labels import Labels
from concord.schemas.problem import NO_KEY, Problem, Relation
from concord.workers.compiling.kernel import kernel_in_place

EXACT, CONTAINED, DIFFERENT, UNLABELLED = 0, 1, 2, 3
CODES = {
    Relation.EXACT: EXACT,
    Relation.CONTAINED: CONTAINED,
    Relation.DIFFERENT: DIFFERENT,
    Relation.UNLABELLED: UNLABELLED,
}


class AgreementState(NamedTuple):
    """The agreements of one document as flat arrays, and counts of the spans that are labelled now.

    Sizes: A agreements, G distinct key tables, K keys, T types, N tokens, W the widest key.

    - ``keys`` (G, N, W): the key of the span that starts at a token, by width − 1; `NO_KEY` where there is none, and
      where a table is padded to the widest one.
    - ``width`` (G,): the longest span that each table compares, in tokens.
    - ``table`` (A,): the key table of each agreement.
    - ``relation`` (A,): its relation, as a number of `CODES`.
    - ``per_token`` (A,): is its cost charged once for each token of the key?
    - ``cost`` (A, T, T): nats for each pair of types.
    - ``counts`` (G, K, T): labelled spans with a key.
    - ``holders`` (G, K, T): labelled spans of which a proper part has the key.
    - ``total`` (G, T): labelled spans with any key.
    - ``left_out`` (G, K): occurrences of a key whose first token is labelled outside. They are counted only where an
      agreement charges for them.
    - ``watching`` (V,): the agreements that charge for occurrences left out.
    - ``watched``: the key tables of those agreements.
    - ``reach`` (G, N): the width of the widest key that starts at each token, in tokens; 0 if nothing is watched.
    """

    keys: NDArray[np.int32]
    width: NDArray[np.int64]
    table: NDArray[np.int64]
    relation: NDArray[np.int64]
    per_token: NDArray[np.bool_]
    cost: NDArray[np.float64]
    counts: NDArray[np.int32]
    holders: NDArray[np.int32]
    total: NDArray[np.int32]
    left_out: NDArray[np.int32]
    watching: NDArray[np.int64]
    watched: NDArray[np.int64]
    reach: NDArray[np.int64]


def uncounted(problem: Problem) -> AgreementState:
    """The agreements of a problem as a state with all counts 0; infinite costs stay infinite."""
    tables, used = problem.key_tables
    types = len(problem.labels.types)
    own = np.array([table.shape[1] for table in tables], np.int64)
    width = int(own.max(initial=1))
    keys = np.full((len(tables), len(problem), width), NO_KEY, np.int32)
    for i, table in enumerate(tables):
        keys[i, :, : table.shape[1]] = table
    size = int(keys.max(initial=NO_KEY)) + 1
    cost = np.zeros((len(used), types, types))
    for i, agreement in enumerate(problem.agreements):
        cost[i] = agreement.cost
    asks = [a.relation is Relation.UNLABELLED and bool(a.cost.any()) for a in problem.agreements]
    watching = np.flatnonzero(np.array(asks, np.bool_))
    widths = np.arange(1, width + 1) if len(watching) else np.zeros(width, np.int64)
    return AgreementState(
        keys,
        own,
        used,
        np.array([CODES[a.relation] for a in problem.agreements], np.int64),
        np.array([a.per_token for a in problem.agreements], np.bool_),
        cost,
        np.zeros((len(tables), size, types), np.int32),
        np.zeros((len(tables), size, types), np.int32),
        np.zeros((len(tables), types), np.int32),
        np.zeros((len(tables), size), np.int32),
        watching,
        np.unique(used[watching]),
        ((keys != NO_KEY) * widths).max(axis=2, initial=0),
    )


def key_bounds(state: AgreementState) -> NDArray[np.int64]:
    """(G, K + 1) where the places of each key begin and end, in a list of all places of a table ordered by key."""
    size = state.counts.shape[1]
    bounds = np.zeros((len(state.keys), size + 1), np.int64)
    for table, ends in zip(state.keys, bounds, strict=True):
        ends[1:] = np.cumsum(np.bincount(table[table != NO_KEY], minlength=size))
    return bounds


@kernel_in_place
def span_cost(state: AgreementState, start: int, end: int, kind: int) -> float:
    """Nats that an uncounted span of type ``kind`` costs with the spans that are counted now."""
    length = end - start
    total = 0.0
    for a in range(len(state.table)):
        g = state.table[a]
        if length > state.width[g]:
            continue
        key = state.keys[g, start, length - 1]
        relation = state.relation[a]
        times = float(length) if state.per_token[a] else 1.0
        if relation == CONTAINED:
            total += _parts_cost(state, a, start, end, kind)
        if key == NO_KEY:
            continue
        if relation == UNLABELLED:
            total += times * state.left_out[g, key] * state.cost[a, kind, 0]
            continue
        for other in range(state.cost.shape[1]):
            if relation == EXACT:
                total += times * state.counts[g, key, other] * state.cost[a, kind, other]
            elif relation == CONTAINED:
                total += times * state.holders[g, key, other] * state.cost[a, other, kind]
            else:
                total += (state.total[g, other] - state.counts[g, key, other]) * state.cost[a, kind, other]
    return total


@kernel_in_place
def _parts_cost(state: AgreementState, a: int, start: int, end: int, kind: int) -> float:
    g = state.table[a]
    total = 0.0
    for width in range(1, end - start):
        times = float(width) if state.per_token[a] else 1.0
        for at in range(start, end - width + 1):
            key = state.keys[g, at, width - 1]
            if key == NO_KEY or _seen(state.keys, g, key, start, at, width):
                continue
            for other in range(state.cost.shape[1]):
                total += times * state.counts[g, key, other] * state.cost[a, kind, other]
    return total


@kernel_in_place
def _seen(keys: NDArray[np.int32], g: int, key: int, start: int, at: int, width: int) -> bool:
    for earlier in range(start, at):
        if keys[g, earlier, width - 1] == key:
            return True
    return False


@kernel_in_place
def add_span(state: AgreementState, start: int, end: int, kind: int, change: int) -> None:
    """Adds a labelled span to the counts (``change`` 1) or takes it out of them (−1)."""
    length = end - start
    for g in range(len(state.keys)):
        if length > state.width[g]:
            continue
        key = state.keys[g, start, length - 1]
        if key != NO_KEY:
            state.counts[g, key, kind] += change
            state.total[g, kind] += change
        for width in range(1, length):
            for at in range(start, end - width + 1):
                part = state.keys[g, at, width - 1]
                if part != NO_KEY and not _seen(state.keys, g, part, start, at, width):
                    state.holders[g, part, kind] += change


@kernel_in_place
def outside_cost(state: AgreementState, t: int) -> float:
    """Nats that an outside label at t costs: with each counted span whose words also occur from t on."""
    total = 0.0
    for a in state.watching:
        g = state.table[a]
        for width in range(1, state.reach[g, t] + 1):
            key = state.keys[g, t, width - 1]
            if key == NO_KEY:
                continue
            times = float(width) if state.per_token[a] else 1.0
            for kind in range(state.cost.shape[1]):
                total += times * state.counts[g, key, kind] * state.cost[a, kind, 0]
    return total


@kernel_in_place
def add_outside(state: AgreementState, t: int, change: int) -> None:
    """Adds an outside label at t to the counts (``change`` 1) or takes it out of them (−1)."""
    for g in state.watched:
        for width in range(state.reach[g, t]):
            key = state.keys[g, t, width]
            if key != NO_KEY:
                state.left_out[g, key] += change


@kernel_in_place
def item_end(continues: NDArray[np.bool_], opens_sentence: NDArray[np.bool_], labels: Labels, t: int, last: int) -> int:
    """The exclusive end of the span that opens at t, ``last`` at most; t + 1 for an outside label."""
    end = t + 1
    while end < last and not opens_sentence[end] and continues[labels[end - 1], labels[end]]:
        end += 1
    return end


@kernel_in_place
def count_labels(state: AgreementState, codec: Codec, labels: Labels, first: int, last: int, change: int) -> None:
    """Adds all spans and outside labels of ``labels[first:last]`` to the counts (``change`` 1) or takes them out (−1).

    ``first`` and ``last`` must not cut a span.
    """
    t = first
    while t < last:
        kind = codec.type_of[labels[t]]
        end = item_end(codec.continues, codec.opens_sentence, labels, t, last)
        if kind >= 0:
            add_span(state, t, end, kind, change)
        elif len(state.watching):
            add_outside(state, t, change)
        t = end


@kernel_in_place
def labels_cost(state: AgreementState, codec: Codec, labels: Labels, first: int, last: int) -> float:
    """Nats that the uncounted ``labels[first:last]`` cost, with each other and with what is counted.

    ``first`` and ``last`` must not cut a span. The counts are the same afterwards.
    """
    total = 0.0
    t = first
    while t < last:
        kind = codec.type_of[labels[t]]
        end = item_end(codec.continues, codec.opens_sentence, labels, t, last)
        if kind >= 0:
            total += span_cost(state, t, end, kind)
        elif len(state.watching):
            total += outside_cost(state, t)
        if end < last:
            count_labels(state, codec, labels, t, end, 1)
        else:
            count_labels(state, codec, labels, first, t, -1)
        t = end
    return total


class Codec(NamedTuple):
    """How a label sequence encodes spans, as arrays over L labels and T types; see `LabelSet`.

    - ``type_of`` (L,): the type of each label, below 0 for outside labels.
    - ``continues`` (L, L): does the second label continue the span of the first?
    - ``opening`` (T,): the label of the first token of a span.
    - ``inside`` (T,): the label of its other tokens.
    - ``outside``: the labels without a type.
    - ``opens_sentence`` (N + 1,): marks the first token of each sentence, and the position after the last token.
    """

    type_of: NDArray[np.int32]
    continues: NDArray[np.bool_]
    opening: NDArray[np.int32]
    inside: NDArray[np.int32]
    outside: NDArray[np.int32]
    opens_sentence: NDArray[np.bool_]


def codec(problem: Problem) -> Codec:
    """The problem's span codec."""
    opens = np.zeros(len(problem) + 1, np.bool_)
    opens[problem.potentials.sentence_starts] = True
    opens[-1] = True
    labels = problem.labels
    outside = np.flatnonzero(labels.type_of < 0).astype(np.int32)
    return Codec(labels.type_of, labels.continues, labels.opening, labels.inside, outside, opens)
