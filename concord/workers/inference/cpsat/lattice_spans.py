"""Span agreement in a CP-SAT lattice: a Boolean for each span, and a cost for pairs of spans.

The Boolean s of a span has only a lower bound, one row s ≥ Σ over the tokens and edges of its path; the sum is 1 if the
labelling has exactly this span, and at most 0 otherwise. Costs are never negative, so no optimum has a greater s than
that, and the row is tighter than a clause over tokens. Spans that no agreement compares have no variable, and spans are
compared only up to the width of the key table, so their number is linear in the document's length.

The cost c of a pair is c · z with z ≥ s_i + s_j − 1, which takes a variable for each pair. If a key is common (names in
a sports table), the spans of a key and type are counted instead, n ≥ Σ s_j, and each span with s_i = 1 costs c · z,
where z is at least n without the span itself: the same sum over pairs, with a variable for each span and type.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from concord.schemas.labels import Labels, Scheme, Spans
from concord.schemas.problem import NO_KEY, Problem, Relation, SpanAgreement
from concord.workers.inference.cpsat.draft import FALSE, TRUE, ModelDraft, Variables

MOST_PAIRS = 400
"""Largest number of pairs of spans of one key with a variable for each pair; more are counted."""


@dataclass(eq=False)
class SpanVariables:
    """Variables of labelled spans, each made when it is first asked for.

    - ``draft``: the model.
    - ``problem``: the problem.
    - ``token`` (N, L), ``edge`` (N, L, L): variables of labels and edges.
    - ``spans``: the spans, which are named by their indices.
    - ``taken``: start, end and type of each span of the labelling from which the search starts.
    - ``by_span``: variables by span.
    """

    draft: ModelDraft
    problem: Problem
    token: Variables
    edge: Variables
    spans: Spans
    taken: frozenset[tuple[int, int, int]]
    by_span: dict[int, int] = field(default_factory=dict)

    @cached_property
    def inner(self) -> NDArray[np.bool_]:
        """(N + 1,) mask of the tokens that are not the first of a sentence."""
        inner = np.ones(len(self.token) + 1, np.bool_)
        inner[self.problem.potentials.sentence_starts] = False
        inner[-1] = False
        return inner

    def hint(self, i: int) -> int:
        """Is span i in the labelling from which the search starts? 1 or 0."""
        return int((int(self.spans.start[i]), int(self.spans.end[i]), int(self.spans.type[i])) in self.taken)

    def __getitem__(self, i: int) -> int:
        if i not in self.by_span:
            self.by_span[i] = self._make(i)
        return self.by_span[i]

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
        """Terms with a sum of 1 if the labelling has exactly this span, and of at most 0 otherwise."""
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
    draft: ModelDraft, problem: Problem, token: Variables, edge: Variables, *, start: Labels, spans: Spans | None
) -> None:
    """Adds the cost of every agreement of ``problem`` to the model.

    ``token`` (N, L) and ``edge`` (N, L, L) are the model's variables. Only ``spans`` can cost anything; None stands for
    all spans that the lattice holds and an agreement touches. ``start`` (N,) gives the hints.
    """
    if spans is None:
        spans = lattice_spans(problem, token, edge)
    now = problem.labels.spans(start, problem.potentials.sentence_starts)
    taken = frozenset(zip(now.start.tolist(), now.end.tolist(), now.type.tolist(), strict=True))
    variables = SpanVariables(draft, problem, token, edge, spans, taken)
    for agreement in problem.agreements:
        _AgreementCost(draft, agreement, variables).add()


def lattice_spans(problem: Problem, token: Variables, edge: Variables) -> Spans:
    """All labelled spans that are on a path of the lattice and that an agreement compares."""
    touched = _touched(problem.agreements, len(token))
    longest = _longest_runs(problem, token, edge)
    widths = np.arange(1, touched.shape[1] + 1)
    fits = touched[:, :, None] & (widths[None, :, None] <= longest[:, None, :])
    start, width, kind = np.nonzero(fits)
    return Spans(start, start + width + 1, kind.astype(np.int32))


def _touched(agreements: tuple[SpanAgreement, ...], count: int) -> NDArray[np.bool_]:
    """(N, W) mask of the spans that are compared, or contain a part that is."""
    touched = np.zeros((count, max(a.key.shape[1] for a in agreements)), np.bool_)
    for agreement in agreements:
        held = agreement.key != NO_KEY
        if agreement.relation is Relation.CONTAINED:
            for w in range(1, held.shape[1]):
                held[:, w] |= held[:, w - 1]
                held[:-1, w] |= held[1:, w - 1]
        touched[:, : held.shape[1]] |= held
    return touched


def _longest_runs(problem: Problem, token: Variables, edge: Variables) -> NDArray[np.int64]:
    """(N, T) length of the longest span of each type that can start at each token in the lattice."""
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
    """One agreement, whose pairs are added to a model: few pairs with a variable each, many by counts."""

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
        """Adds all pairs of the agreement's relation."""
        relation = self.agreement.relation
        if relation is Relation.CONTAINED:
            self._contained()
        elif relation is Relation.EXACT:
            for group in self.members.values():
                self._symmetric(group)
        elif relation is Relation.UNLABELLED:
            self._unlabelled()
        else:
            self._symmetric(np.flatnonzero(self.key != NO_KEY))

    def _symmetric(self, group: NDArray[np.int64]) -> None:
        """Adds the unordered pairs of a group: the spans of one key, or of all keys if different keys conflict."""
        different = self.agreement.relation is Relation.DIFFERENT
        if len(group) ** 2 <= 2 * MOST_PAIRS:
            first, second = np.triu_indices(len(group), 1)
            i, j = group[first], group[second]
            keep = self.key[i] != self.key[j] if different else np.ones(len(i), np.bool_)
            # If lengths differ, the score takes that of the span with the lower type.
            swap = self.kind[j] < self.kind[i]
            i, j = np.where(swap, j, i)[keep], np.where(swap, i, j)[keep]
            weight = np.where(self.kind[i] == self.kind[j], (self.weight[i] + self.weight[j]) / 2.0, self.weight[i])
            cost = self.agreement.cost[self.kind[i], self.kind[j]]
            # Overlapping spans never stand together.
            apart = (self.end[i] <= self.start[j]) | (self.end[j] <= self.start[i])
            for k in np.flatnonzero(apart & (cost > 0)).tolist():
                terms = [(self.variables[int(j[k])], 1)]
                self._charge(self.variables[int(i[k])], terms, 0, 1, float(cost[k] * weight[k]))
            return
        self._symmetric_counts(group)

    def _symmetric_counts(self, group: NDArray[np.int64]) -> None:
        different = self.agreement.relation is Relation.DIFFERENT
        counts = self._counts(group, np.ones_like(self.weight))
        for i in group.tolist():
            own = int(self.kind[i])
            for kind, (count, most) in counts.items():
                cost = float(self.agreement.cost[own, kind])
                if kind < own or not cost:
                    continue
                same = self.members[int(self.key[i])] if different else group[:0]
                same = same[self.kind[same] == kind]
                terms = [(count, 1), *((self.variables[j], -1) for j in same.tolist())]
                # Pairs of one type are met from both sides, and a span is no partner of itself.
                itself = int(kind == own and not different)
                share = 0.5 if kind == own else 1.0
                self._charge(self.variables[i], terms, itself, most, share * cost * float(self.weight[i]))

    def _unlabelled(self) -> None:
        """Adds each span with all occurrences of its key that may begin outside.

        An occurrence that always begins outside is a constant cost of the span.
        """
        outside = np.flatnonzero(self.variables.problem.labels.type_of < 0)
        for width in np.unique((self.end - self.start)[self.compared]).tolist():
            places = _groups(self.agreement.key[:, width - 1].astype(np.int64))
            for key in sorted(set(self.members) & set(places)):
                tokens = self.variables.token[np.ix_(places[key], outside)].ravel()
                self._against(self.members[key], tokens[tokens != FALSE])

    def _against(self, group: NDArray[np.int64], tokens: Variables) -> None:
        """Adds each span of ``group`` with the outside labels ``tokens`` (variables) at the occurrences of its key."""
        fixed, free = int((tokens == TRUE).sum()), tokens[tokens != TRUE].tolist()
        parts = [[(v, 1)] for v in free]
        if len(parts) * len(group) > MOST_PAIRS:
            count = self.draft.variable(hint=self._hinted([(v, 1) for v in free]), upper=len(free))
            self.draft.at_most([(v, 1) for v in free], 0, unless=count)
            parts = [[(count, 1)]]
        for i in group.tolist():
            cost = float(self.agreement.cost[self.kind[i], 0]) * float(self.weight[i])
            for terms in ([(TRUE, fixed)] if fixed else [], *parts):
                self._charge(self.variables[i], terms, 0, max(1, len(free)), cost)

    def _contained(self) -> None:
        """Adds each key of a proper part of a longer span, with all spans of that key.

        Longer spans of one type around one place never stand together, so they share a variable.
        """
        outer, inner, place = self._parts()
        for key, members in _groups(inner).items():
            group = self.members.get(key)
            if group is None:
                continue
            around = outer[members]
            shared = _groups(place[members] * len(self.agreement.cost) + self.kind[around])
            counted = len(shared) * len(group) > MOST_PAIRS
            counts = self._counts(group, self.weight) if counted else {}
            for label, spans in shared.items():
                at, own = divmod(label, len(self.agreement.cost))
                apart = group[(self.end[group] <= at) | (self.start[group] > at)]
                costs = self.agreement.cost[own, self.kind[apart]]
                if not (costs > 0).any():
                    continue
                longer = self._any(around[spans])
                for kind, (count, most) in counts.items():
                    self._charge(longer, [(count, 1)], 0, most, float(self.agreement.cost[own, kind]))
                if counted:
                    continue
                for j, cost in zip(apart[costs > 0].tolist(), costs[costs > 0].tolist(), strict=True):
                    self._charge(longer, [(self.variables[j], 1)], 0, 1, cost * float(self.weight[j]))

    def _parts(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Pairs of a span and the key of a proper part, each once, with the first start of that part: three (M,)."""
        pairs = [np.zeros((3, 0), np.int64)]
        length = (self.end - self.start)[self.compared]
        longest = int(length.max(initial=0))
        for offset in range(longest):
            for width in range(1, longest - offset + 1):
                fits = self.compared[(offset + width <= length) & (width < length)]
                parts = self.agreement.key[self.start[fits] + offset, width - 1].astype(np.int64)
                has_key = parts != NO_KEY
                pairs.append(np.stack([fits[has_key], parts[has_key], self.start[fits[has_key]] + offset]))
        outer, inner, place = np.concatenate(pairs, axis=1)
        _, first = np.unique(np.stack([outer, inner]), axis=1, return_index=True)
        return outer[first], inner[first], place[first]

    def _any(self, spans: NDArray[np.int64]) -> int:
        """A variable that is at least 1 if one of these spans is labelled; no two of them can be."""
        terms = [(self.variables[i], 1) for i in spans.tolist() if self.variables[i] != FALSE]
        if len(terms) <= 1:
            return terms[0][0] if terms else FALSE
        anyone = self.draft.variable(hint=max(self.draft.hints[v] for v, _ in terms))
        self.draft.at_most(terms, 0, unless=anyone)
        return anyone

    def _counts(self, group: NDArray[np.int64], weights: NDArray[np.int64]) -> dict[int, tuple[int, int]]:
        """By type: a variable that is at least the weighted number of the group's spans, and its upper bound."""
        counts = {}
        for kind in np.unique(self.kind[group]).tolist():
            spans = group[self.kind[group] == kind].tolist()
            terms = [(self.variables[i], int(weights[i])) for i in spans]
            most = sum(w for _, w in terms)
            count = self.draft.variable(hint=self._hinted(terms), upper=most)
            self.draft.at_most(terms, 0, unless=count)
            counts[int(kind)] = count, most
        return counts

    def _hinted(self, terms: list[tuple[int, int]]) -> int:
        """Value of the sum in the labelling from which the search starts."""
        return sum(c * self.draft.hints[v] for v, c in terms if v != FALSE)

    def _charge(self, span: int, terms: list[tuple[int, int]], but: int, most: int, cost: float) -> None:
        """Charges ``cost`` nats for each unit of Σ ``terms`` above ``but``, if the variable ``span`` is 1.

        ``terms`` are pairs (variable, coefficient), and the excess is at most ``most`` units. An infinite ``cost``
        forbids any excess while ``span`` is 1; otherwise a new variable with ``cost`` for each unit is at least the
        excess.
        """
        terms = [(v, c) for v, c in terms if v != FALSE]
        if cost <= 0.0 or span == FALSE or not terms:
            return
        if np.isinf(cost):
            self.draft.at_most(terms, but, when=span)
            return
        if but == 0 and len(terms) == 1 and TRUE in (span, terms[0][0]):
            other = span if terms[0][0] == TRUE else terms[0][0]
            self.draft.charge(other, cost * terms[0][1])
            return
        hint = max(0, self._hinted(terms) - but) * self.draft.hints[span]
        units = self.draft.variable(hint=hint, upper=most, cost=cost)
        self.draft.at_most(terms, but, unless=units, when=span)


def _groups(keys: NDArray[np.int64]) -> dict[int, NDArray[np.int64]]:
    """The places of each key, ascending; `NO_KEY` is left out."""
    if not len(keys):
        return {}
    order = np.argsort(keys, kind="stable")
    names, first = np.unique(keys[order], return_index=True)
    parts = np.split(order, first[1:])
    return {int(k): part for k, part in zip(names, parts, strict=True) if k != NO_KEY}
