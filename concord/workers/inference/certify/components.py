"""Sentences that can still differ from their Viterbi labels, and the components that have to be solved together.

Given D, the most that a better labelling can lose locally, a label or span with a larger max-marginal loss is in no
better labelling. The remaining ones decide which spans and rows can still cost anything, and so which sentences have to
be solved together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats, Ints
from concord.schemas.labels import Spans
from concord.schemas.problem import NO_KEY, LinearRows, SpanAgreement
from concord.workers.compiling.kernel import inner, inner_in_place, kernel, kernel_in_place
from concord.workers.inference.core.agreement import CONTAINED, DIFFERENT, UNLABELLED, AgreementState
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.row_reach import largest_activity
from concord.workers.inference.core.spans import CandidateSpans, candidate_spans

FIRST_TOKEN = np.zeros(1, np.int64)
"""The sentence of rows without entries: their cost is a constant of the document."""

NOTE, JOIN = range(2)
"""The two passes over all items: the first notes each on its side, the second joins their sentences."""


@dataclass(frozen=True, eq=False)
class Pruned:
    """Max-marginal losses of a document, computed once and compared with ever smaller D.

    - ``problem``: the problem.
    - ``token_loss`` (N, L): max-marginal loss of each label, in nats.
    - ``spans``: candidate spans within the first D, with their losses.
    - ``sentence`` (N,): sentence of each token.
    - ``span_sentence`` (M,): sentence of each span.
    - ``state``: the agreements.
    """

    problem: Prepared
    token_loss: Floats
    spans: CandidateSpans
    sentence: Ints
    span_sentence: Ints
    state: AgreementState

    @classmethod
    def of(cls, problem: Prepared, most_loss: float) -> Pruned:
        """The losses of all labels, and of all spans that lose at most ``most_loss`` nats."""
        starts = problem.potentials.sentence_starts
        sentence = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(problem))))
        spans = candidate_spans(problem, most_loss if problem.agreements else -1.0)
        loss = problem.best_marginals[:, None] - problem.max_marginals
        return cls(problem, loss, spans, sentence, sentence[spans.start], problem.uncounted)

    def components(self, most_loss: Floats) -> list[Ints]:
        """Components of sentences that must be solved together, one sorted array each.

        ``most_loss`` (S,) is the D of each sentence. A sentence in no component keeps its Viterbi labels.
        """
        parent = np.arange(len(most_loss))
        involved = np.zeros(len(most_loss), np.bool_)
        if self.problem.agreements:
            alive = self.spans.loss <= most_loss[self.span_sentence]
            spans = np.flatnonzero(alive)
            arrays = (self.spans.start[spans], self.spans.end[spans], self.spans.type[spans], self.span_sentence[spans])
            outside = self.allowed(most_loss)[:, self.problem.labels.type_of < 0].any(axis=1)
            _join_all(self.state, arrays, np.flatnonzero(outside), self.sentence, parent, involved)
        for row in self._open_rows(most_loss).tolist():
            inside = self.problem.rows.position[self.problem.rows.pointer[row] : self.problem.rows.pointer[row + 1]]
            _join_sentences(self.sentence[inside] if len(inside) else FIRST_TOKEN, parent, involved)
        root = np.array([_root(parent, s) for s in range(len(parent))], np.int64)
        return _parted(np.flatnonzero(involved), root[involved])

    def allowed(self, most_loss: Floats) -> NDArray[np.bool_]:
        """(N, L) mask of the labels that a better labelling can have."""
        return self.token_loss <= most_loss[self.sentence][:, None]

    def alive_spans(self, most_loss: Floats) -> Spans:
        """The spans that a better labelling can have."""
        is_alive = self.spans.loss <= most_loss[self.span_sentence]
        return Spans(self.spans.start[is_alive], self.spans.end[is_alive], self.spans.type[is_alive].astype(np.int32))

    def _open_rows(self, most_loss: Floats) -> Ints:
        """Rows that some better labelling may break: their largest activity exceeds the bound."""
        rows = self.problem.rows
        if not len(rows):
            return np.zeros(0, np.int64)
        return np.flatnonzero(largest_activity(rows, self.allowed(most_loss)) > rows.bound)


def part_of(problem: Prepared, sentences: Ints, sentence: Ints) -> tuple[Prepared, Ints]:
    """The problem of some sentences alone, and its tokens (n,) in the document.

    Rows that reach out of the sentences are left out: the caller has shown that they cost nothing.
    """
    p = problem.potentials
    first, last = np.searchsorted(sentence, sentences), np.searchsorted(sentence, sentences, side="right")
    tokens = ranges(first, last)
    starts = np.searchsorted(tokens, p.sentence_starts[sentences])
    potentials = p.of_tokens(tokens, starts)
    agreements = _cut_agreements(problem, tokens)
    return replace(
        problem, potentials=potentials, rows=_cut_rows(problem.rows, tokens, len(problem)), agreements=agreements
    ), tokens


def ranges(first: Ints, last: Ints) -> Ints:
    """The numbers from ``first`` (n,) to ``last`` (n,), exclusive, one range after the other."""
    lengths = last - first
    each: Ints = np.arange(lengths.sum()) + np.repeat(first - np.cumsum(lengths) + lengths, lengths)
    return each


def _cut_agreements(problem: Prepared, tokens: Ints) -> tuple[SpanAgreement, ...]:
    # Agreements that share a table have to share its part, too: `Problem.key_tables` looks for the same object.
    whole, used = problem.key_tables
    cut = [table[tokens] for table in whole]
    return tuple(replace(a, key=cut[i]) for a, i in zip(problem.agreements, used.tolist(), strict=True))


def _cut_rows(rows: LinearRows, tokens: Ints, count: int) -> LinearRows:
    if not len(rows):
        return rows
    inside = np.isin(np.arange(count), tokens)
    place = np.cumsum(inside) - 1
    whole = np.bincount(rows.row_of_entry, ~inside[rows.position], len(rows)) == 0
    whole &= (np.diff(rows.pointer) > 0) | inside[0]
    part = rows.part(np.flatnonzero(whole))
    return replace(part, position=place[part.position].astype(np.int32))


@kernel_in_place
def _root(parent: Ints, s: int) -> int:
    while parent[s] != s:
        parent[s] = parent[parent[s]]
        s = parent[s]
    return s


@kernel_in_place
def _join(parent: Ints, involved: NDArray[np.bool_], one: int, other: int) -> None:
    involved[one] = True
    involved[other] = True
    parent[_root(parent, one)] = _root(parent, other)


@kernel_in_place
def _join_sentences(sentences: Ints, parent: Ints, involved: NDArray[np.bool_]) -> None:
    for s in sentences:
        _join(parent, involved, sentences[0], s)


class Sides(NamedTuple):
    """Items whose pairs can cost something, summarised by key and type; each item is on one of two sides, or on both.

    - ``number`` (K,): index of each key that spans have, out of Q; −1 for other keys.
    - ``first_end`` (2, Q, T): least end of a side's items.
    - ``last_start`` (2, Q, T): greatest start of a side's items.
    - ``sentence`` (2, Q, T): sentence of one of these items; −1 if there is none.
    - ``cost`` (T, T): nats for a type of side 0 with a type of side 1.

    Two items cost something together only if they do not overlap. An item has such a partner if the least end of the
    other side is at most its start, or the greatest start at least its end. Items that overlap are in one sentence, so
    all sentences of both sides are joined either way.
    """

    number: Ints
    first_end: Ints
    last_start: Ints
    sentence: Ints
    cost: Floats


@kernel
def _join_all(
    state: AgreementState,
    spans: tuple[Ints, ...],
    outside: Ints,
    sentence: Ints,
    parent: Ints,
    involved: NDArray[np.bool_],
) -> None:
    """Joins the sentences of every two items that can be labelled together and would then cost something.

    The items are ``spans`` and the tokens ``outside``, which can have an outside label. Time grows with the items, not
    with their pairs. For `Relation.DIFFERENT` all keys count as one, which may also join spans of the same key.
    """
    for a in range(len(state.table)):
        relation = state.relation[a]
        sides = _sides_for(state, a, spans, len(sentence))
        for step in (NOTE, JOIN):
            _members(state, a, spans, 0 if relation == UNLABELLED else 1, sides, step, parent, involved)
            if relation == CONTAINED:
                _holders(state, a, spans, sides, step, parent, involved)
            elif relation == UNLABELLED:
                _left_out(state, a, outside, sentence, sides, step, parent, involved)
            else:
                _members(state, a, spans, 0, sides, step, parent, involved)


@inner
def _sides_for(state: AgreementState, a: int, spans: tuple[Ints, ...], count: int) -> Sides:
    """Empty sides for the items of agreement a, in a document of ``count`` tokens."""
    start, end, _, _ = spans
    number = np.full(state.counts.shape[1], -1)
    keys = 0
    for i in range(len(start)):
        key = _key(state, a, start[i], end[i])
        if key != NO_KEY and number[key] < 0:
            number[key] = 0 if state.relation[a] == DIFFERENT else keys
            keys += 1
    shape = (2, keys, state.cost.shape[1])
    return Sides(number, np.full(shape, count + 1), np.full(shape, -1), np.full(shape, -1), state.cost[a])


@inner_in_place
def _key(state: AgreementState, a: int, start: int, end: int) -> int:
    g = state.table[a]
    return state.keys[g, start, end - start - 1] if end - start <= state.width[g] else NO_KEY


@inner_in_place
def _members(
    state: AgreementState,
    a: int,
    spans: tuple[Ints, ...],
    side: int,
    sides: Sides,
    step: int,
    parent: Ints,
    involved: NDArray[np.bool_],
) -> None:
    """Passes each span with its key to `_item`."""
    start, end, kind, sentence = spans
    for i in range(len(start)):
        key = _key(state, a, start[i], end[i])
        _item(sides, side, key, JoinedItem(kind[i], start[i], end[i], sentence[i]), step, parent, involved)


@inner_in_place
def _holders(
    state: AgreementState,
    a: int,
    spans: tuple[Ints, ...],
    sides: Sides,
    step: int,
    parent: Ints,
    involved: NDArray[np.bool_],
) -> None:
    """Passes each span to `_item` with the key of each of its proper parts."""
    start, end, kind, sentence = spans
    g = state.table[a]
    for i in range(len(start)):
        for w in range(1, end[i] - start[i] if end[i] - start[i] <= state.width[g] else 1):
            for at in range(start[i], end[i] - w + 1):
                key = state.keys[g, at, w - 1]
                _item(sides, 0, key, JoinedItem(kind[i], start[i], end[i], sentence[i]), step, parent, involved)


@inner_in_place
def _left_out(
    state: AgreementState,
    a: int,
    outside: Ints,
    sentence: Ints,
    sides: Sides,
    step: int,
    parent: Ints,
    involved: NDArray[np.bool_],
) -> None:
    """Passes the occurrences of each key that can begin outside to `_item`."""
    for t in outside:
        for w in range(state.width[state.table[a]]):
            key = state.keys[state.table[a], t, w]
            _item(sides, 1, key, JoinedItem(0, t, t + 1, sentence[t]), step, parent, involved)


class JoinedItem(NamedTuple):
    """One item: ``kind``, its type; ``start`` and ``end`` (exclusive), tokens; ``sentence``, its number."""

    kind: int
    start: int
    end: int
    sentence: int


@inner_in_place
def _item(
    sides: Sides,
    side: int,
    key: int,
    item: JoinedItem,
    step: int,
    parent: Ints,
    involved: NDArray[np.bool_],
) -> None:
    """Notes an item by key on its side or, once all are noted, joins its sentence with those of the other side."""
    kind, start, end, sentence = item
    if key == NO_KEY or sides.number[key] < 0:
        return
    q, other = sides.number[key], 1 - side
    if step == NOTE:
        sides.first_end[side, q, kind] = min(sides.first_end[side, q, kind], end)
        sides.last_start[side, q, kind] = max(sides.last_start[side, q, kind], start)
        sides.sentence[side, q, kind] = sentence
        return
    for b in range(len(sides.cost)):
        cost = sides.cost[kind, b] if side == 0 else sides.cost[b, kind]
        if cost > 0.0 and sides.sentence[other, q, b] >= 0:
            if sides.first_end[other, q, b] <= start or sides.last_start[other, q, b] >= end:
                involved[sentence] = True
            parent[_root(parent, sentence)] = _root(parent, sides.sentence[other, q, b])


def _parted(items: Ints, names: Ints) -> list[Ints]:
    """Splits the rising ``items`` (M,) by ``names`` (M,); the parts are in the order of their first items."""
    _, first, number = np.unique(names, return_index=True, return_inverse=True)
    order = np.argsort(first[number], kind="stable")
    return np.split(items[order], np.flatnonzero(np.diff(number[order])) + 1) if len(items) else []
