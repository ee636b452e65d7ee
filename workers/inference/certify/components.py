"""What of a document can still differ from its Viterbi labelling, and what hangs together.

Given D, the most that a better labelling can lose locally, a label or span with a larger
max-marginal loss is in no better labelling. The rest decides which spans and rows can still cost
anything, and so which sentences have to be solved together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.labels import Spans
from schemas.potentials import Floats, Ints, Potentials
from schemas.problem import NO_KEY, LinearRows, Problem
from workers.compiling.kernel import kernel, kernel_in_place
from workers.inference.core.agreement import CONTAINED, EXACT, UNLABELLED, AgreementState, empty_state, places_by_key
from workers.inference.core.chain import max_messages
from workers.inference.core.spans import CandidateSpans, candidate_spans

FIRST = np.zeros(1, np.int64)
"""The sentence to which rows without entries belong: their cost is a constant of the document."""


@dataclass(frozen=True, eq=False)
class Pruned:
    """Max-marginal losses of a document, in nats, computed once and compared with ever smaller D.

    ``token_loss`` (N, L); ``spans`` are the candidates within the first D; ``sentence`` (N,) is each
    token's sentence, ``span_sentence`` (M,) each span's.
    """

    problem: Problem
    token_loss: Floats
    spans: CandidateSpans
    sentence: Ints
    span_sentence: Ints
    state: AgreementState

    @classmethod
    def of(cls, problem: Problem, most_loss: float) -> Pruned:
        """Losses of all labels, and all spans that lose at most ``most_loss`` nats."""
        forward, backward = max_messages(problem.potentials)
        reached = forward + backward
        starts = problem.potentials.sentence_starts
        sentence = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(problem))))
        spans = candidate_spans(problem, most_loss if problem.agreements else -1.0)
        loss = reached.max(axis=1, keepdims=True) - reached
        return cls(problem, loss, spans, sentence, sentence[spans.start], empty_state(problem, 1.0))

    def components(self, most_loss: Floats) -> list[Ints]:
        """Sentences that must be solved together, one sorted array a component.

        ``most_loss`` (S,) is D of each sentence. A sentence in no component keeps its Viterbi labels.
        """
        parent = np.arange(len(most_loss))
        involved = np.zeros(len(most_loss), np.bool_)
        if self.problem.agreements:
            alive = self.spans.loss <= most_loss[self.span_sentence]
            order, pointer = self._by_key(alive)
            arrays = (self.spans.start, self.spans.end, self.spans.type, self.span_sentence, alive)
            _join_spans(self.state, arrays, order, pointer, parent, involved)
            if len(self.state.watching):
                outside = self.allowed(most_loss)[:, self.problem.labels.type_of < 0].any(axis=1)
                places, bounds = self._places
                _join_unlabelled(self.state, arrays, places, bounds, outside, self.sentence, parent, involved)
        for row in self._open_rows(most_loss).tolist():
            inside = self.problem.rows.position[self.problem.rows.pointer[row] : self.problem.rows.pointer[row + 1]]
            _join_sentences(self.sentence[inside] if len(inside) else FIRST, parent, involved)
        root = np.array([_root(parent, s) for s in range(len(parent))], np.int64)
        return [np.flatnonzero(involved & (root == r)) for r in np.unique(root[involved])]

    def allowed(self, most_loss: Floats) -> NDArray[np.bool_]:
        """(N, L) labels that a better labelling can have."""
        return self.token_loss <= most_loss[self.sentence][:, None]

    def alive_spans(self, most_loss: Floats) -> Spans:
        """Spans that a better labelling can have."""
        kept = self.spans.loss <= most_loss[self.span_sentence]
        return Spans(self.spans.start[kept], self.spans.end[kept], self.spans.type[kept].astype(np.int32))

    def _by_key(self, alive: NDArray[np.bool_]) -> tuple[Ints, Ints]:
        """Alive spans ordered by key, of each key table (G, M), and each key's place in that order."""
        start, width = self.spans.start, self.spans.end - self.spans.start
        tables, size = len(self.state.keys), self.state.counts.shape[1]
        short = width <= self.state.keys.shape[2]
        order = np.zeros((tables, len(start)), np.int64)
        pointer = np.zeros((tables, size + 1), np.int64)
        for g in range(tables):
            keys = np.full(len(start), NO_KEY, np.int64)
            keys[short] = self.state.keys[g, start[short], width[short] - 1]
            keys[~alive] = NO_KEY
            known = np.flatnonzero(keys != NO_KEY)
            order[g, : len(known)] = known[np.argsort(keys[known], kind="stable")]
            pointer[g, 1:] = np.cumsum(np.bincount(keys[known], minlength=size))
        return order, pointer

    @cached_property
    def _places(self) -> tuple[Ints, Ints]:
        return places_by_key(self.state)

    def _open_rows(self, most_loss: Floats) -> Ints:
        """Rows that some better labelling may break: their largest activity exceeds the bound."""
        rows = self.problem.rows
        if not len(rows):
            return np.zeros(0, np.int64)
        pointer, position, previous, label, coefficient = _row_arrays(rows)
        allowed = self.allowed(most_loss)
        return np.flatnonzero(_largest_activity(pointer, position, previous, label, coefficient, allowed) > rows.bound)


def part_of(problem: Problem, sentences: Ints, sentence: Ints) -> tuple[Problem, Ints]:
    """The problem of some sentences alone, and the (n,) tokens of the document it is made of.

    Rows that reach out of the sentences are left out: the caller has shown that they cost nothing.
    """
    p = problem.potentials
    inside = np.isin(sentence, sentences)
    tokens = np.flatnonzero(inside)
    place = np.cumsum(inside) - 1
    potentials = Potentials(p.unary[tokens], p.transition, place[p.sentence_starts[sentences]])
    agreements = _cut_agreements(problem, tokens)
    return replace(
        problem, potentials=potentials, rows=_cut_rows(problem.rows, inside, place), agreements=agreements
    ), tokens


def _cut_agreements(problem: Problem, tokens: Ints) -> tuple[Any, ...]:
    # One table stays one object: that is how engines see that agreements share it.
    tables = {id(a.key): a.key[tokens] for a in problem.agreements}
    return tuple(replace(a, key=tables[id(a.key)]) for a in problem.agreements)


def _cut_rows(rows: LinearRows, inside: NDArray[np.bool_], place: Ints) -> LinearRows:
    if not len(rows):
        return rows
    whole = np.bincount(rows.row_of_entry, ~inside[rows.position], len(rows)) == 0
    whole &= (np.diff(rows.pointer) > 0) | inside[0]
    entries = whole[rows.row_of_entry]
    lengths = np.diff(rows.pointer)[whole]
    return LinearRows(
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        place[rows.position[entries]].astype(np.int32),
        rows.previous[entries],
        rows.label[entries],
        rows.coefficient[entries],
        rows.bound[whole],
        rows.weight[whole],
        rows.constraint[whole],
    )


def _row_arrays(rows: LinearRows) -> tuple[Any, ...]:
    order = np.lexsort((rows.position, rows.row_of_entry))
    return rows.pointer, rows.position[order], rows.previous[order], rows.label[order], rows.coefficient[order]


@kernel
def _largest_activity(pointer: Any, position: Any, previous: Any, label: Any, coefficient: Any, allowed: Any) -> Any:
    """(R,) at least what any allowed labelling makes of each row; entries are ordered by position."""
    largest = np.zeros(len(pointer) - 1)
    gain = np.zeros(allowed.shape[1])
    for r in range(len(largest)):
        e = pointer[r]
        while e < pointer[r + 1]:
            t = position[e]
            gain[:] = 0.0
            while e < pointer[r + 1] and position[e] == t:
                # An edge entry needs one more thing to be true: count it only where that helps.
                if previous[e] < 0 or coefficient[e] > 0:
                    gain[label[e]] += coefficient[e]
                e += 1
            best = -np.inf
            for other in range(len(gain)):
                if allowed[t, other]:
                    best = max(best, gain[other])
            largest[r] += best
    return largest


@kernel_in_place
def _root(parent: Any, s: int) -> Any:
    while parent[s] != s:
        parent[s] = parent[parent[s]]
        s = parent[s]
    return s


@kernel_in_place
def _join(parent: Any, involved: Any, one: int, other: int) -> None:
    involved[one] = True
    involved[other] = True
    parent[_root(parent, one)] = _root(parent, other)


@kernel_in_place
def _join_sentences(sentences: Any, parent: Any, involved: Any) -> None:
    for s in sentences:
        _join(parent, involved, sentences[0], s)


@kernel_in_place
def _join_spans(state: Any, spans: Any, order: Any, pointer: Any, parent: Any, involved: Any) -> None:
    """Joins the sentences of every two spans that can be labelled together and would cost something."""
    start, end, alive = spans[0], spans[1], spans[4]
    for a in range(len(state.table)):
        g = state.table[a]
        keys = state.keys[g]
        for i in range(len(start)):
            width = end[i] - start[i]
            if not alive[i] or width > state.width[g] or state.relation[a] == UNLABELLED:
                continue
            if state.relation[a] == CONTAINED:
                for w in range(1, width):
                    for at in range(start[i], end[i] - w + 1):
                        key = keys[at, w - 1]
                        if key != NO_KEY:
                            _join_key(
                                state.cost[a],
                                spans,
                                i,
                                order[g],
                                pointer[g, key],
                                pointer[g, key + 1],
                                parent,
                                involved,
                            )
                continue
            key = keys[start[i], width - 1]
            if key == NO_KEY:
                continue
            if state.relation[a] == EXACT:
                _join_key(state.cost[a], spans, i, order[g], pointer[g, key], pointer[g, key + 1], parent, involved)
            else:
                _join_key(state.cost[a], spans, i, order[g], 0, pointer[g, key], parent, involved)
                _join_key(state.cost[a], spans, i, order[g], pointer[g, key + 1], pointer[g, -1], parent, involved)


@kernel_in_place
def _join_unlabelled(
    state: Any, spans: Any, places: Any, bounds: Any, outside: Any, sentence: Any, parent: Any, involved: Any
) -> None:
    """Joins the sentences of every span and every place of its words that can begin outside, where that would cost."""
    start, end, kind, span_sentence, alive = spans
    for a in state.watching:
        g = state.table[a]
        for i in range(len(start)):
            width = end[i] - start[i]
            if not alive[i] or width > state.width[g] or state.cost[a, kind[i], 0] == 0.0:
                continue
            key = state.keys[g, start[i], width - 1]
            if key == NO_KEY:
                continue
            for t in places[g, bounds[g, key] : bounds[g, key + 1]]:
                if outside[t] and not start[i] <= t < end[i]:
                    _join(parent, involved, span_sentence[i], sentence[t])


@kernel_in_place
def _join_key(cost: Any, spans: Any, i: int, order: Any, first: int, last: int, parent: Any, involved: Any) -> None:
    start, end, kind, sentence, _ = spans
    for place in range(first, last):
        j = order[place]
        apart = end[j] <= start[i] or end[i] <= start[j]
        if apart and cost[kind[i], kind[j]] > 0.0:
            _join(parent, involved, sentence[i], sentence[j])
