"""Span agreement in a CP-SAT lattice: a Boolean a span, and a cost for pairs of them.

A span variable is only bound from below (it must be 1 where the lattice takes the span): costs are
never negative, so nothing else is needed, and the bound is one linear row over edges, tighter than
a clause over tokens. Spans that no agreement can touch have no variable, and spans are compared up
to the key table's width only, so their number is linear in the document's length.

Few pairs get a variable each. Where a key is common (names in a sports table) the spans of a key
and type are counted, and each span pays for the count.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from schemas.labels import Labels, Scheme, Spans
from schemas.problem import NO_KEY, Problem, Relation, SpanAgreement
from workers.inference.cpsat_model import FALSE, TRUE, ModelDraft

Ints = NDArray[np.int32]

MOST_PAIRS = 400
"""Spans of one key that make more pairs than this are counted, not paired."""


@dataclass(eq=False)
class SpanVariables:
    """Variables of labelled spans, made when they are first asked for."""

    draft: ModelDraft
    problem: Problem
    token: Ints
    edge: Ints
    spans: Spans
    taken: frozenset[tuple[int, int, int]]
    made: dict[int, int] = field(default_factory=dict)

    @cached_property
    def inner(self) -> NDArray[np.bool_]:
        """(N + 1,) does a token follow one of its own sentence here?"""
        inner = np.ones(len(self.token) + 1, np.bool_)
        inner[self.problem.potentials.sentence_starts] = False
        inner[-1] = False
        return inner

    def hint(self, i: int) -> int:
        """Is span i in the labelling the search starts from?"""
        return int((int(self.spans.start[i]), int(self.spans.end[i]), int(self.spans.type[i])) in self.taken)

    def __getitem__(self, i: int) -> int:
        if i not in self.made:
            self.made[i] = self._make(i)
        return self.made[i]

    def _make(self, i: int) -> int:
        enters, leaves = self._path(int(self.spans.start[i]), int(self.spans.end[i]), int(self.spans.type[i]))
        terms = [(enters, 1), *leaves]
        sums: dict[int, int] = {}
        for variable, coefficient in terms:
            if variable != FALSE:
                sums[variable] = sums.get(variable, 0) + coefficient
        open_terms = {v: c for v, c in sums.items() if c and v != TRUE}
        if sum(c for c in sums.values() if c > 0) <= 0:
            return FALSE
        if not sums.get(TRUE, 0) and list(open_terms.values()) == [1]:
            return next(iter(open_terms))
        if not open_terms:
            return TRUE
        variable = self.draft.variable(hint=self.hint(i))
        self.draft.at_most(terms, 0, unless=variable)
        return variable

    def _path(self, start: int, end: int, kind: int) -> tuple[int, list[tuple[int, int]]]:
        """Terms whose sum is at most 1, and 1 just where the labelling has exactly this span."""
        labels = self.problem.labels
        opening, inside = int(labels.opening[kind]), int(labels.inside[kind])
        leaves: list[tuple[int, int]] = []
        if labels.scheme is Scheme.PLAIN and self.inner[start]:
            leaves.append((int(self.edge[start, inside, opening]), -1))
        for t in range(start + 2, end):
            leaves += [(int(self.token[t - 1, inside]), -1), (int(self.edge[t, inside, inside]), 1)]
        if self.inner[end]:
            last = opening if end == start + 1 else inside
            leaves.append((int(self.edge[end, last, inside]), -1))
        if end == start + 1:
            return int(self.token[start, opening]), leaves
        return int(self.edge[start + 1, opening, inside]), leaves


def add_agreements(
    draft: ModelDraft, problem: Problem, token: Ints, edge: Ints, *, start: Labels, spans: Spans | None
) -> None:
    """Adds the cost of every agreement of ``problem`` to the model.

    ``token`` (N, L) and ``edge`` (N, L, L) are its variables. Only ``spans`` are looked at; all that
    the lattice holds and an agreement touches where it is None. ``start`` (N,) gives the hints.
    """
    if spans is None:
        spans = lattice_spans(problem, token, edge)
    now = problem.labels.spans(start, problem.potentials.sentence_starts)
    taken = frozenset(zip(now.start.tolist(), now.end.tolist(), now.type.tolist(), strict=True))
    variables = SpanVariables(draft, problem, token, edge, spans, taken)
    for agreement in problem.agreements:
        _AgreementCost(draft, agreement, variables).add()


def lattice_spans(problem: Problem, token: Ints, edge: Ints) -> Spans:
    """All labelled spans that a path of the lattice has and that an agreement compares."""
    touched = _touched(problem.agreements, len(token))
    longest = _longest_runs(problem, token, edge)
    widths = np.arange(1, touched.shape[1] + 1)
    fits = touched[:, :, None] & (widths[None, :, None] <= longest[:, None, :])
    start, width, kind = np.nonzero(fits)
    return Spans(start, start + width + 1, kind.astype(np.int32))


def _touched(agreements: tuple[SpanAgreement, ...], count: int) -> NDArray[np.bool_]:
    """(N, W) is the span compared, or does it contain a part that is?"""
    touched = np.zeros((count, max(a.key.shape[1] for a in agreements)), np.bool_)
    for agreement in agreements:
        held = agreement.key != NO_KEY
        if agreement.relation is Relation.CONTAINED:
            for w in range(1, held.shape[1]):
                held[:, w] |= held[:, w - 1]
                held[:-1, w] |= held[1:, w - 1]
        touched[:, : held.shape[1]] |= held
    return touched


def _longest_runs(problem: Problem, token: Ints, edge: Ints) -> NDArray[np.int64]:
    """(N, T) length of the longest span of a type that the lattice allows to start at a token."""
    opening, inside = problem.labels.opening, problem.labels.inside
    goes_on = edge[:, inside, inside] != FALSE
    steps_in = edge[:, opening, inside] != FALSE
    first = problem.potentials.sentence_starts
    goes_on[first], steps_in[first] = False, False
    run = np.ones((len(token) + 1, len(opening)), np.int64)
    run[-1] = 0
    for t in range(len(token) - 2, -1, -1):
        run[t] += np.where(goes_on[t + 1], run[t + 1], 0)
    longest = np.ones((len(token), len(opening)), np.int64)
    longest[:-1] += np.where(steps_in[1:], run[1:-1], 0)
    longest[token[:, opening] == FALSE] = 0
    return longest


class _AgreementCost:
    """Adds one agreement's pairs to a model: paired where they are few, counted where many."""

    def __init__(self, draft: ModelDraft, agreement: SpanAgreement, variables: SpanVariables) -> None:
        self.draft, self.agreement, self.variables = draft, agreement, variables
        spans = variables.spans
        self.start, self.end, self.kind = spans.start, spans.end, spans.type
        length = self.end - self.start
        self.compared = np.flatnonzero(length <= agreement.key.shape[1])
        self.key = np.full(len(spans), NO_KEY, np.int64)
        self.key[self.compared] = agreement.key[self.start[self.compared], length[self.compared] - 1]
        self.weight = length if agreement.per_token else np.ones(len(spans), np.int64)
        self.members = _groups(self.key)

    def add(self) -> None:
        """All pairs of the agreement's relation."""
        relation = self.agreement.relation
        if relation is Relation.CONTAINED:
            self._contained()
        elif relation is Relation.EXACT:
            for group in self.members.values():
                self._symmetric(group)
        else:
            self._symmetric(np.flatnonzero(self.key != NO_KEY))

    def _symmetric(self, group: NDArray[np.int64]) -> None:
        """Unordered pairs inside a group: the spans of one key, or all with a key where these must differ."""
        different = self.agreement.relation is Relation.DIFFERENT
        if len(group) ** 2 <= 2 * MOST_PAIRS:
            first, second = np.triu_indices(len(group), 1)
            i, j = group[first], group[second]
            keep = self.key[i] != self.key[j] if different else np.ones(len(i), np.bool_)
            # Where lengths differ the score takes that of the lower type.
            swap = self.kind[j] < self.kind[i]
            i, j = np.where(swap, j, i)[keep], np.where(swap, i, j)[keep]
            weight = np.where(self.kind[i] == self.kind[j], (self.weight[i] + self.weight[j]) / 2.0, self.weight[i])
            self._pairs(i, j, self.agreement.cost[self.kind[i], self.kind[j]], weight)
            return
        counts = {int(b): self._count(group[self.kind[group] == b]) for b in np.unique(self.kind[group])}
        for i in group.tolist():
            for kind, (count, most) in counts.items():
                own = int(self.kind[i])
                cost = float(self.agreement.cost[own, kind])
                if kind < own or not cost:
                    continue
                same = self.members[int(self.key[i])] if different else group[:0]
                same = same[self.kind[same] == kind]
                terms = [(count, 1), *((self.variables[j], -1) for j in same.tolist())]
                # Its own type is met from both sides, and a span is no partner of itself.
                itself = int(kind == own and not different)
                share = 0.5 if kind == own else 1.0
                self._charge(i, terms, itself, most, share * cost * float(self.weight[i]))

    def _contained(self) -> None:
        """Each longer span and each key of a proper part of it, against all spans of that key."""
        outer, inner = self.agreement.parts(self.start[self.compared], (self.end - self.start)[self.compared])
        outer = self.compared[outer]
        for key, places in _groups(inner).items():
            group = self.members.get(key)
            if group is None:
                continue
            holders = outer[places]
            if len(holders) * len(group) <= MOST_PAIRS:
                i, j = (a.ravel() for a in np.meshgrid(holders, group, indexing="ij"))
                self._pairs(i, j, self.agreement.cost[self.kind[i], self.kind[j]], self.weight[j].astype(np.float64))
                continue
            counts = {
                int(b): self._count(group[self.kind[group] == b], weigh=True) for b in np.unique(self.kind[group])
            }
            for i in holders.tolist():
                for kind, (count, most) in counts.items():
                    self._charge(i, [(count, 1)], 0, most, float(self.agreement.cost[int(self.kind[i]), kind]))

    def _pairs(
        self, i: NDArray[np.int64], j: NDArray[np.int64], cost: NDArray[np.float64], weight: NDArray[np.float64]
    ) -> None:
        """A variable for each pair that costs something; overlapping spans never stand together."""
        apart = (self.end[i] <= self.start[j]) | (self.end[j] <= self.start[i])
        for k in np.flatnonzero(apart & (cost > 0)).tolist():
            a, b = int(i[k]), int(j[k])
            self._charge(a, [(self.variables[b], 1)], 0, 1, float(cost[k] * weight[k]))

    def _count(self, group: NDArray[np.int64], *, weigh: bool = False) -> tuple[int, int]:
        """A variable that is at least the (weighted) number of spans of the group, and its upper bound."""
        weights = self.weight[group].tolist() if weigh else [1] * len(group)
        most = int(sum(weights))
        hint = sum(w * self.variables.hint(i) for i, w in zip(group.tolist(), weights, strict=True))
        count = self.draft.variable(hint=hint, upper=most)
        terms = [(self.variables[i], w) for i, w in zip(group.tolist(), weights, strict=True)]
        self.draft.at_most(terms, 0, unless=count)
        return count, most

    def _charge(self, i: int, terms: list[tuple[int, int]], but: int, most: int, cost: float) -> None:
        """Given span i, the sum of ``terms`` less ``but`` costs ``cost`` nats a unit (inf: is at most 0)."""
        span = self.variables[i]
        if cost <= 0.0 or span == FALSE or all(v == FALSE for v, _ in terms):
            return
        if np.isinf(cost):
            self.draft.at_most(terms, but, given=span)
            return
        if but == 0 and len(terms) == 1 and TRUE in (span, terms[0][0]):
            if terms[0][0] != TRUE:
                self.draft.charge(terms[0][0], cost * terms[0][1])
                return
            self.draft.charge(span, cost * terms[0][1])
            return
        value = sum(c * (self.draft.hints[v] if v != FALSE else 0) for v, c in terms) - but
        paid = self.draft.variable(hint=max(0, value) * self.variables.hint(i), upper=most, cost=cost)
        self.draft.at_most(terms, but, unless=paid, given=span)


def _groups(keys: NDArray[np.int64]) -> dict[int, NDArray[np.int64]]:
    """Key → places where it stands, ascending, without `NO_KEY`."""
    if not len(keys):
        return {}
    order = np.argsort(keys, kind="stable")
    names, first = np.unique(keys[order], return_index=True)
    parts = np.split(order, first[1:])
    return {int(k): part for k, part in zip(names, parts, strict=True) if k != NO_KEY}
