"""Dynamic programming over states of rows: exact for rows of any reach, as long as few states are left.

A state after a token is the token's node (a label, or a part of a span) and, for each row that has entries before and
after, the sum of its entries so far: the row's automaton. Two partial labellings in one state have the same future, so
the better one stays. A row of neighbouring tokens is open for these only, so trigrams of labels need the states of
`chains.window`; "at most one title" has two states wherever it is open, and so has "a title".

Let A be the sum of row r so far, F the sum of its later entries, b its bound, ρ its weight, and lo ≤ F ≤ hi whatever
labels follow. The penalty ρ · max(0, A + F − b) is settled early, which is what makes states few:

    A + hi ≤ b    0 whatever follows: all such A are one state, *kept*;
    A + lo > b    ρ · (A − b) now and ρ · F as entries come: all such A are one state, *broken*. A hard row ends here.

With multipliers 0 ≤ λ ≤ ρ, and the chain charged with λ · entries (`relaxation.row_dual`), the best rest of a labelling
after a node is at most the charged chain's, plus for each open row

    λ · hi if kept,    −(ρ − λ) · lo if broken,    λ · (b − A) otherwise:

the charged chain takes λ · F off, and the row costs at least λ · (A + F − b) in the last case, and more exactly in the
others. A state whose bound is no better than the incumbent is left out. This is resource-constrained dynamic
programming with Lagrangian bounds (Handler & Zang 1980; Beasley & Christofides 1989). If a token has too many states,
those with the least bounds are dropped, and the greatest bound dropped is an upper bound of all that they led to.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ints
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.problem import ANY, LinearRows
from concord.workers.compiling.kernel import inner, inner_in_place, kernel
from concord.workers.inference.core.row_reach import RowColumns, row_columns
from concord.workers.inference.core.spans import CandidateSpans

ANY_NODE = -1
"""The node before one that may follow any node that ends."""

KEPT, BROKEN = -np.inf, np.inf
"""The sums of rows that are settled."""

SPARE = 4
"""States that a token may have before the least are dropped, in units of those that stay."""


class Nodes(NamedTuple):
    """What each of N tokens may be: K nodes, each a label or a part of a span.

    - ``first`` (N + 1,): the nodes of token t are ``first[t]:first[t + 1]``.
    - ``label`` (K,): the label.
    - ``score`` (K,): the label's score less what its span is charged, in nats.
    - ``before`` (K,): the span's node at the token before; `ANY_NODE` for one that may follow any node that ends.
    - ``ends`` (K,): may the next token be any node?
    - ``follows`` (L, L): may a node of a label (column) follow a node that ends with a label (row)?
    """

    first: Ints
    label: Ints
    score: Floats
    before: Ints
    ends: NDArray[np.bool_]
    follows: NDArray[np.bool_]


class RowStates(NamedTuple):
    """The best labelling over states of rows.

    - ``bound``: nats; no labelling scores more than this or than the target.
    - ``labels`` (N,): the best labelling met, or None if none is better than the target.
    - ``score``: its score in nats, or −inf.
    - ``work``: number of steps from a state to a node.
    """

    bound: float
    labels: Labels | None
    score: float
    work: int


class _Touches(NamedTuple):
    """R rows as a walk over the tokens meets them: Q touches, each a row at a token where it has entries.

    - ``first`` (N + 1,): the touches of token t are ``first[t]:first[t + 1]``.
    - ``row`` (Q,): the row.
    - ``entry`` (Q + 1,): its entries there are ``order[entry[q]:entry[q + 1]]``.
    - ``opens``, ``closes`` (Q,): is it the row's first, or its last?
    - ``order`` (M,): the rows' entries in this order.
    - ``rows``: the rows.
    - ``multiplier`` (R,): of each row, in nats.
    - ``slot`` (R,): place of the row's sum in a state; rows that are never open together share one.
    """

    first: Ints
    row: Ints
    entry: Ints
    opens: NDArray[np.bool_]
    closes: NDArray[np.bool_]
    order: Ints
    rows: RowColumns
    multiplier: Floats
    slot: Ints


class _NodeChain(NamedTuple):
    """Nodes and the edges between them.

    - ``nodes``: the nodes.
    - ``edge`` (E, L, L): scores of edges in nats, see `recursion.ScoredChain`.
    - ``opens`` (N,): is the token the first of its sentence?
    """

    nodes: Nodes
    edge: Floats
    opens: NDArray[np.bool_]


def label_nodes(unary: Floats) -> Nodes:
    """A node for each possible label of each token; ``unary`` (N, L) are scores in nats."""
    token, label = np.nonzero(np.isfinite(unary))
    first = np.searchsorted(token, np.arange(len(unary) + 1))
    anything = np.full(len(token), ANY_NODE, np.int64)
    follows = np.ones((unary.shape[1], unary.shape[1]), np.bool_)
    return Nodes(first, label, unary[token, label], anything, np.ones(len(token), np.bool_), follows)


def span_nodes(
    unary: Floats, labels: LabelSet, spans: CandidateSpans, span_cost: Floats, outside_cost: Floats
) -> Nodes:
    """A node for each possible outside label of each token, and for each token of each span.

    - ``unary`` (N, L): scores in nats.
    - ``span_cost`` (M,), ``outside_cost`` (N,): nats charged for each of M spans, and for outside labels at each token.
    """
    token, label = np.nonzero(np.isfinite(unary) & (labels.type_of < 0))
    length = spans.end - spans.start
    span = np.repeat(np.arange(len(length)), length)
    place = np.arange(len(span)) - np.repeat(np.cumsum(length) - length, length)
    at = spans.start[span] + place
    part = np.where(place == 0, labels.opening[spans.type[span]], labels.inside[spans.type[span]])
    of_parts = unary[at, part] - np.where(place, 0.0, span_cost[span])
    score = np.append(unary[token, label] - outside_cost[token], of_parts)
    before = np.append(np.full(len(token), ANY_NODE), np.where(place, len(token) + np.arange(len(span)) - 1, ANY_NODE))
    ends = np.append(np.ones(len(token), np.bool_), place == length[span] - 1)
    order = np.argsort(np.append(token, at), kind="stable")
    new_place = np.append(np.argsort(order), ANY_NODE)
    return Nodes(
        np.searchsorted(np.append(token, at)[order], np.arange(len(unary) + 1)),
        np.append(label, part)[order].astype(np.int64),
        score[order],
        new_place[before[order]],
        ends[order],
        ~labels.continues,
    )


class RowsOnChain(NamedTuple):
    """A chain of nodes with R rows, and multipliers for bounds.

    - ``potentials``: scores of labels and edges, in nats; of labels, `Nodes.score` is what counts.
    - ``charged``: the potentials less multipliers times the rows' entries.
    - ``rows``, ``multipliers`` (R,): the rows, and a number from 0 to its weight for each, in nats.
    - ``nodes``: the nodes.
    """

    potentials: Potentials
    charged: Potentials
    rows: LinearRows
    multipliers: Floats
    nodes: Nodes


def best_over_states(chain: RowsOnChain, *, target: float, states: int) -> RowStates:
    """The best labelling by score and rows, if it scores more than ``target`` nats.

    At most ``states`` states stay at a token. It walks from the first token to the last. If it has to drop states that
    could lead to something better, it walks the other way, too: "each title is followed by a year" has two states from
    there, since only whether a year comes later counts, and many from the front.
    """
    if (np.diff(chain.nodes.first) == 0).any():
        return RowStates(-np.inf, None, -np.inf, 0)
    there = _one_way(chain, target, states)
    if there.bound <= max(target, there.score):
        return there
    back = _one_way(_turned(chain), max(target, there.score), states)
    bound, work = min(there.bound, max(back.bound, there.score)), there.work + back.work
    if back.labels is None:
        return there._replace(bound=bound, work=work)
    return RowStates(bound, np.ascontiguousarray(back.labels[::-1]), back.score, work)


def _one_way(whole: RowsOnChain, target: float, states: int) -> RowStates:
    potentials, charged, rows, multipliers, nodes = whole
    opens = np.zeros(len(potentials), np.bool_)
    opens[potentials.sentence_starts] = True
    without = (rows.pointer[1:] == rows.pointer[:-1]) & (-rows.bound > rows.slack)
    fixed = float((-rows.bound[without] * rows.weight[without]).sum())
    touches, width = _touches(rows, multipliers, len(potentials))
    chain = _NodeChain(nodes, potentials.edges, opens)
    least, most = _rests(touches, chain, potentials.unary.shape[1])
    token = np.repeat(np.arange(len(potentials)), np.diff(nodes.first))
    fee = potentials.unary[token, nodes.label] - charged.unary[token, nodes.label]
    rest = _messages(chain._replace(edge=charged.edges), nodes.score - fee)
    bound, score, labels, work = _walk(chain, touches, least, most, rest, width, -fixed, target, states)
    return RowStates(bound, labels if score > -np.inf else None, score, work)


def _turned(chain: RowsOnChain) -> RowsOnChain:
    """The same chain from the last token to the first."""
    rows, nodes, tokens = chain.rows, chain.nodes, len(chain.potentials)
    of_edge = rows.previous != ANY
    turned = replace(
        rows,
        position=np.where(of_edge, tokens, tokens - 1).astype(np.int32) - rows.position,
        previous=np.where(of_edge, rows.label, ANY).astype(np.int32),
        label=np.where(of_edge, rows.previous, rows.label).astype(np.int32),
    )
    count = len(nodes.label)
    after = np.full(count, ANY_NODE)
    inner = np.flatnonzero(nodes.before != ANY_NODE)
    after[nodes.before[inner]] = count - 1 - inner
    turned_nodes = Nodes(
        count - nodes.first[::-1],
        nodes.label[::-1].copy(),
        nodes.score[::-1].copy(),
        after[::-1].copy(),
        (nodes.before == ANY_NODE)[::-1].copy(),
        # In another layout it would be another type, for which all kernels are compiled again.
        np.ascontiguousarray(nodes.follows.T),
    )
    potentials, charged = _turned_potentials(chain.potentials), _turned_potentials(chain.charged)
    return RowsOnChain(potentials, charged, turned, chain.multipliers, turned_nodes)


def _turned_potentials(p: Potentials) -> Potentials:
    """The potentials from the last token to the first."""
    ends = np.append(p.sentence_starts[1:], len(p))
    transition = np.swapaxes(p.transition, -1, -2)
    if transition.ndim == 3:
        transition = np.roll(transition[::-1], 1, axis=0)
    return Potentials(np.ascontiguousarray(p.unary[::-1]), np.ascontiguousarray(transition), len(p) - ends[::-1])


def _touches(rows: LinearRows, multipliers: Floats, tokens: int) -> tuple[_Touches, int]:
    """The rows as a walk meets them, and the largest number of rows open at once."""
    order = np.lexsort((rows.row_of_entry, rows.position))
    position, row = rows.position[order].astype(np.int64), rows.row_of_entry[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (position[1:] != position[:-1]) | (row[1:] != row[:-1])
    entry = np.append(np.flatnonzero(new), len(order))
    token, of_row = position[new], row[new]
    opens, closes = np.zeros(len(of_row), np.bool_), np.zeros(len(of_row), np.bool_)
    opens[np.unique(of_row, return_index=True)[1]] = True
    closes[len(of_row) - 1 - np.unique(of_row[::-1], return_index=True)[1]] = True
    slot, width = _slots(of_row, opens, closes, len(rows))
    touches = _Touches(
        np.searchsorted(token, np.arange(tokens + 1)),
        of_row,
        entry,
        opens,
        closes,
        order,
        row_columns(rows),
        multipliers,
        slot,
    )
    return touches, width


@kernel
def _slots(row: Ints, opens: NDArray[np.bool_], closes: NDArray[np.bool_], count: int) -> tuple[Ints, int]:
    """(R,) a place for each row's sum, none for two that are open together; and the number of places."""
    slot, free = np.zeros(count, np.int64), np.zeros(count, np.int64)
    waiting, width = 0, 0
    for q in range(len(row)):
        r = row[q]
        if opens[q]:
            if waiting:
                waiting -= 1
                slot[r] = free[waiting]
            else:
                slot[r] = width
                width += 1
        if closes[q]:
            free[waiting] = slot[r]
            waiting += 1
    return slot, width


@inner_in_place
def _ranks(nodes: Nodes, t: int, rank: Ints) -> int:
    """Numbers the labels of token t in ``rank`` (L,), −1 for others; returns how many there are."""
    rank[:] = -1
    count = 0
    for k in range(nodes.first[t], nodes.first[t + 1]):
        if rank[nodes.label[k]] < 0:
            rank[nodes.label[k]] = count
            count += 1
    return count


@inner
def _grown(touches: _Touches, chain: _NodeChain, t: int, before: Ints, here: Ints) -> Floats:
    """(A, B, q) what each touch of token t adds to its row, by the labels of token t − 1 and of token t.

    ``before``, ``here`` (L,) get their numbers, see `_ranks`. At a sentence's first token A is 1.
    """
    before[:] = -1
    sources = 1 if chain.opens[t] else _ranks(chain.nodes, t - 1, before)
    first = touches.first[t]
    grown = np.zeros((sources, _ranks(chain.nodes, t, here), touches.first[t + 1] - first))
    rows = touches.rows
    for q in range(first, touches.first[t + 1]):
        for e in touches.order[touches.entry[q] : touches.entry[q + 1]]:
            b = here[rows.label[e]]
            if b < 0:
                continue
            if rows.previous[e] == ANY:
                grown[:, b, q - first] += rows.coefficient[e]
            elif before[rows.previous[e]] >= 0:
                grown[before[rows.previous[e]], b, q - first] += rows.coefficient[e]
    return grown


@kernel
def _rests(touches: _Touches, chain: _NodeChain, width: int) -> tuple[Floats, Floats]:
    """(Q,) least and most that the entries of each touch's row after its token can add up to."""
    least, most = np.zeros(len(touches.row)), np.zeros(len(touches.row))
    low, high = np.zeros(len(touches.slot)), np.zeros(len(touches.slot))
    before, here = np.full(width, -1), np.full(width, -1)
    for t in range(len(chain.opens) - 1, -1, -1):
        first, end = touches.first[t], touches.first[t + 1]
        if first == end:
            continue
        grown = _grown(touches, chain, t, before, here)
        for q in range(first, end):
            r = touches.row[q]
            least[q], most[q] = low[r], high[r]
            low[r] += grown[:, :, q - first].min()
            high[r] += grown[:, :, q - first].max()
    return least, most


@inner_in_place
def _step(chain: _NodeChain, t: int, a: int, b: int) -> float:
    """Score of the edge from node a, at token t − 1, to node b, at token t; −inf if b may not follow."""
    nodes = chain.nodes
    if nodes.before[b] != ANY_NODE:
        if nodes.before[b] != a:
            return -np.inf
    elif a >= 0 and not nodes.ends[a]:
        return -np.inf
    if chain.opens[t]:
        return 0.0
    before, here = nodes.label[a], nodes.label[b]
    if nodes.before[b] == ANY_NODE and not nodes.follows[before, here]:
        return -np.inf
    return float(chain.edge[min(t, len(chain.edge) - 1), before, here])


@kernel
def _messages(chain: _NodeChain, score: Floats) -> Floats:
    """(K,) the best score of all after each node, in all sentences; ``score`` (K,) are the nodes' own."""
    rest = np.zeros(len(score))
    nodes = chain.nodes
    for t in range(len(chain.opens) - 1, 0, -1):
        for a in range(nodes.first[t - 1], nodes.first[t]):
            best = -np.inf
            for b in range(nodes.first[t], nodes.first[t + 1]):
                best = max(best, _step(chain, t, a, b) + score[b] + rest[b])
            rest[a] = best
    return rest


@inner_in_place
def _counted(touches: _Touches, q: int, total: float, grown: float, least: float, most: float) -> tuple[float, float]:
    """The sum of touch q's row after its entries, settled if it can be, and the nats that it costs at once."""
    r = touches.row[q]
    weight, bound = touches.rows.weight[r], touches.rows.bound[r]
    limit = bound + touches.rows.slack[r]
    if total == KEPT:
        return (0.0, 0.0) if touches.closes[q] else (KEPT, 0.0)
    if total == BROKEN:
        return 0.0 if touches.closes[q] else BROKEN, weight * grown
    total += grown
    if total + most <= limit:
        return (0.0, 0.0) if touches.closes[q] else (KEPT, 0.0)
    if total + least > limit:
        return 0.0 if touches.closes[q] else BROKEN, weight * (total - bound)
    return total, 0.0


class _Layer(NamedTuple):
    """The states after a token: room for C, each with W sums of rows.

    - ``sums`` (C, W): of the open rows, by slot; `KEPT` or `BROKEN` if settled.
    - ``score`` (C,): of the best partial labelling in the state, in nats.
    - ``bound`` (C,): nats that no labelling from there exceeds.
    - ``node`` (C,): the node at the token.
    - ``origin`` (C,): the state before, counted from the first token on.
    - ``size`` (1,): number of states.
    """

    sums: Floats
    score: Floats
    bound: Floats
    node: Ints
    origin: Ints
    size: Ints


class _Open(NamedTuple):
    """The rows open after a token, by slot.

    - ``row`` (W,): the row; −1 for none.
    - ``least``, ``most`` (W,): what its later entries add up to.
    - ``later`` (1,): Σ λ · b of the rows that open later, in nats.
    """

    row: Ints
    least: Floats
    most: Floats
    later: Floats


@kernel
def _walk(
    chain: _NodeChain,
    touches: _Touches,
    least: Floats,
    most: Floats,
    rest: Floats,
    width: int,
    start: float,
    target: float,
    states: int,
) -> tuple[float, float, Labels, int]:
    """The greatest bound dropped or reached, the best score with its labels (N,), and the number of steps taken.

    The score is −inf if no state is left. ``start`` is the score before the first token, and ``width`` the number of
    rows that are open at once.
    """
    nodes, tokens = chain.nodes, len(chain.opens)
    room = SPARE * states
    layer, before = _new_layer(room, width), _new_layer(room, width)
    opened = _Open(np.full(width, -1), np.zeros(width), np.zeros(width), np.zeros(1))
    for q in range(len(touches.row)):
        if touches.opens[q]:
            opened.later[0] += _owed(touches, touches.row[q])
    table = np.empty(1 << int(np.ceil(np.log2(2 * room))), np.int64)
    own = np.zeros(width)
    bits = own.view(np.int64)
    came_from, came_by = np.empty(1024, np.int64), np.empty(1024, np.int64)
    begins = np.zeros(tokens + 1, np.int64)
    source, here = np.full(chain.edge.shape[1], -1), np.full(chain.edge.shape[1], -1)
    before.score[0], before.size[0] = start, 1
    dropped, work = -np.inf, 0
    for t in range(tokens):
        first, end = touches.first[t], touches.first[t + 1]
        grown = _grown(touches, chain, t, source, here)
        _open(opened, touches, least, most, first, end)
        last = t + 1 == tokens or chain.opens[t + 1]
        table[:] = -1
        layer.size[0] = 0
        for s in range(before.size[0]):
            a = 0 if chain.opens[t] else source[nodes.label[before.node[s]]]
            for b in range(nodes.first[t], nodes.first[t + 1]):
                work += 1
                value = before.score[s] + _step(chain, t, before.node[s], b) + nodes.score[b]
                own[:] = before.sums[s]
                for q in range(first, end):
                    slot = touches.slot[touches.row[q]]
                    more = grown[a, here[nodes.label[b]], q - first]
                    own[slot], cost = _counted(touches, q, own[slot], more, least[q], most[q])
                    value -= cost
                bound = value + rest[b] + _rest_of_rows(opened, touches, own)
                if not bound > target:
                    continue
                # Where a sentence ends, the node says nothing of what follows.
                name = -1 if last else b
                i = _place(layer, table, _hash(name, bits), name, own)
                if i < 0:
                    dropped = max(dropped, bound)
                elif value > layer.score[i]:
                    layer.score[i], layer.bound[i] = value, bound
                    layer.node[i], layer.origin[i] = b, begins[t] + s
        dropped = max(dropped, _cut(layer, states))
        count = layer.size[0]
        if count == 0:
            return dropped, -np.inf, np.zeros(0, np.int32), work
        begins[t + 1] = begins[t] + (before.size[0] if t else 0)
        while begins[t + 1] + count > len(came_from):
            came_from = np.concatenate((came_from, np.empty_like(came_from)))
            came_by = np.concatenate((came_by, np.empty_like(came_by)))
        came_from[begins[t + 1] : begins[t + 1] + count] = layer.origin[:count]
        came_by[begins[t + 1] : begins[t + 1] + count] = layer.node[:count]
        layer, before = before, layer
    best = int(np.argmax(before.score[: before.size[0]]))
    labels, at = np.zeros(tokens, np.int32), begins[tokens] + best
    for t in range(tokens - 1, -1, -1):
        labels[t] = nodes.label[came_by[at]]
        at = came_from[at]
    score = float(before.score[best])
    return max(dropped, score), score, labels, work


@inner
def _new_layer(room: int, width: int) -> _Layer:
    ints = np.full(room, -1), np.zeros(room, np.int64), np.zeros(1, np.int64)
    return _Layer(np.zeros((room, width)), np.zeros(room), np.zeros(room), *ints)


@inner_in_place
def _owed(touches: _Touches, r: int) -> float:
    """λ · b of row r, with its slack."""
    return float(touches.multiplier[r] * (touches.rows.bound[r] + touches.rows.slack[r]))


@inner_in_place
def _open(opened: _Open, touches: _Touches, least: Floats, most: Floats, first: int, end: int) -> None:
    """Brings what is known of open rows to a token whose touches are ``first`` to ``end``."""
    for q in range(first, end):
        r = touches.row[q]
        slot = touches.slot[r]
        if touches.opens[q]:
            opened.later[0] -= _owed(touches, r)
        opened.row[slot] = -1 if touches.closes[q] else r
        opened.least[slot], opened.most[slot] = least[q], most[q]


@inner_in_place
def _rest_of_rows(opened: _Open, touches: _Touches, sums: Floats) -> float:
    """What the module's text adds to the charged chain's rest, for rows with ``sums`` (W,) so far, in nats."""
    rest = opened.later[0]
    for w in range(len(sums)):
        r = opened.row[w]
        if r < 0:
            continue
        if sums[w] == KEPT:
            rest += touches.multiplier[r] * opened.most[w]
        elif sums[w] == BROKEN:
            rest -= (touches.rows.weight[r] - touches.multiplier[r]) * opened.least[w]
        else:
            rest += _owed(touches, r) - touches.multiplier[r] * sums[w]
    return float(rest)


@inner_in_place
def _place(layer: _Layer, table: Ints, code: int, name: int, sums: Floats) -> int:
    """Index of the state of node ``name`` with ``sums`` (W,), a new one where there is none; −1 if there is no room.

    ``table`` (a power of two,) holds states by their ``code``, see `_hash`; ``name`` is −1 where no node counts.
    """
    at = code & (len(table) - 1)
    while table[at] >= 0:
        i = table[at]
        if (name < 0 or layer.node[i] == name) and _equal(layer.sums, i, sums):
            return int(i)
        at = (at + 1) & (len(table) - 1)
    i = layer.size[0]
    if i == len(layer.score):
        return -1
    table[at], layer.size[0] = i, i + 1
    for w in range(len(sums)):
        layer.sums[i, w] = sums[w]
    layer.score[i], layer.node[i] = -np.inf, name
    return int(i)


@inner_in_place
def _hash(name: int, sums: Ints) -> int:
    """A number below 2³¹ for a node and the bits of its sums."""
    value = name + 1
    for total in sums:
        value = ((value * 1_000_003) ^ ((total ^ (total >> 32)) & 0xFFFFFFFF)) & 0x7FFFFFFF
    return value ^ (value >> 15)


@inner_in_place
def _equal(sums: Floats, i: int, own: Floats) -> bool:
    for w in range(len(own)):
        if sums[i, w] != own[w]:
            return False
    return True


@inner
def _cut(layer: _Layer, states: int) -> float:
    """Drops states until at most ``states`` are left, those of the least bounds; returns the greatest bound dropped."""
    count, stay, dropped = layer.size[0], 0, -np.inf
    if count <= states:
        return dropped
    limit = np.partition(layer.bound[:count], count - states)[count - states]
    for i in range(count):
        if layer.bound[i] < limit or stay == states:
            dropped = max(dropped, layer.bound[i])
            continue
        layer.sums[stay] = layer.sums[i]
        layer.score[stay], layer.bound[stay] = layer.score[i], layer.bound[i]
        layer.node[stay], layer.origin[stay] = layer.node[i], layer.origin[i]
        stay += 1
    layer.size[0] = stay
    return dropped
