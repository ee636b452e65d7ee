"""Brute force on small problems: what every engine and the objective itself are checked against.

The problems themselves are those of `concord.testing`. Nothing here shares code with the package's own scoring but the
data classes, so that an error has to be made twice to go unseen. Plain loops, straight from the papers' definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
from concord.schemas.labels import Labels, LabelSet, Scheme
from concord.schemas.problem import ANY, NO_KEY, LinearRows, Problem, Relation, SpanAgreement
from concord.testing.problems import (
    all_labellings,
    local_scores,
)

Span = tuple[int, int, int]
"""Start, end (exclusive), type."""


def enumerate_marginals(problem: Problem, *, temperature: float = 1.0) -> Floats:
    """(N, L) token marginals of p(y) ∝ exp(score(y) / temperature), over every labelling."""
    labellings = all_labellings(len(problem), len(problem.labels))
    local = local_scores(problem.potentials, labellings)
    values = np.full(len(labellings), -np.inf)
    for i in np.flatnonzero(np.isfinite(local)):
        values[i] = problem.score(labellings[i]).objective
    if not np.isfinite(values.max()):
        raise ValueError("no labelling is feasible, so there is no distribution")
    weights = np.exp((values - values.max()) / temperature)
    weights /= weights.sum()
    marginals = np.zeros((len(problem), len(problem.labels)))
    for t in range(len(problem)):
        marginals[t] = np.bincount(labellings[:, t], weights, len(problem.labels))
    return marginals


def naive_spans(labels: Labels, label_set: LabelSet, sentence_starts: Sequence[int]) -> list[Span]:
    """The spans of a labelling, read off the label names one token at a time."""
    types = list(label_set.types)
    spans: list[Span] = []
    open_start, open_kind = -1, ""
    for t in range(len(labels) + 1):
        name = "O" if t == len(labels) else label_set.names[int(labels[t])]
        plain = label_set.scheme is Scheme.PLAIN
        kind = "" if name == "O" else (name if plain else name[2:])
        broken = t == len(labels) or t in sentence_starts or kind != open_kind or (not plain and name.startswith("B-"))
        if broken and open_kind:
            spans.append((open_start, t, types.index(open_kind)))
        if broken:
            open_start, open_kind = t, kind
    return spans


Content = Callable[[int, int], object]
"""Content of the span from start to end, None where it is not compared."""


def naive_agreement(agreement: SpanAgreement, spans: Sequence[Span], content: Content | None = None) -> float:
    """Cost in nats of all pairs of spans, by a loop over pairs (Finkel et al. 2005, §5.1).

    ``content`` tells what a span says; the agreement's key table where it is not given.
    """
    width = agreement.key.shape[1]

    def by_key(start: int, end: int) -> object:
        if end - start > width or agreement.key[start, end - start - 1] == NO_KEY:
            return None
        return int(agreement.key[start, end - start - 1])

    says = content or by_key
    if agreement.relation is Relation.UNLABELLED:
        return _naive_unlabelled(agreement, spans, says)
    total = 0.0
    for i, (start, end, kind) in enumerate(spans):
        for j, (other_start, other_end, other_kind) in enumerate(spans):
            if max(end - start, other_end - other_start) > width:
                continue
            inner = says(other_start, other_end)
            if i == j or inner is None:
                continue
            if agreement.relation is Relation.CONTAINED:
                parts = [(a, b) for a in range(start, end) for b in range(a + 1, end + 1) if b - a < end - start]
                if any(says(a, b) == inner for a, b in parts):
                    times = other_end - other_start if agreement.per_token else 1
                    total += agreement.cost[kind, other_kind] * times
                continue
            outer = says(start, end)
            if outer is None or j < i:
                continue
            if agreement.relation is Relation.EXACT and outer == inner:
                total += agreement.cost[kind, other_kind] * (end - start if agreement.per_token else 1)
            if agreement.relation is Relation.DIFFERENT and outer != inner:
                total += agreement.cost[kind, other_kind]
    return total


def _naive_unlabelled(agreement: SpanAgreement, spans: Sequence[Span], says: Content) -> float:
    """Cost in nats of every span and every place with its content that begins in no span."""
    count, width = agreement.key.shape
    total = 0.0
    for start, end, kind in spans:
        length = end - start
        if length > width or says(start, end) is None:
            continue
        for at in range(count - length + 1):
            begins_outside = not any(a <= at < b for a, b, _ in spans)
            if begins_outside and says(at, at + length) == says(start, end):
                total += agreement.cost[kind, 0] * (length if agreement.per_token else 1)
    return total


def naive_objective(problem: Problem, labels: Labels, content: Content | None = None) -> float:
    """The whole objective of a labelling in plain loops (Chang et al. 2008, eq. 2); −inf where it is impossible."""
    starts = problem.potentials.sentence_starts.tolist()
    total = 0.0
    for t, label in enumerate(labels.tolist()):
        total += problem.potentials.unary[t, label]
        if t not in starts:
            total += problem.potentials.transition[labels[t - 1], label]
    rows = problem.rows
    for r in range(len(rows)):
        activity = 0.0
        for e in range(int(rows.pointer[r]), int(rows.pointer[r + 1])):
            t = int(rows.position[e])
            fits = rows.previous[e] == ANY or (t not in starts and labels[t - 1] == rows.previous[e])
            activity += rows.coefficient[e] if fits and labels[t] == rows.label[e] else 0.0
        degree = activity - rows.bound[r]
        if degree > 1e-9:
            total -= degree * rows.weight[r]
    spans = naive_spans(labels, problem.labels, starts)
    return total - sum(naive_agreement(a, spans, content) for a in problem.agreements)


def real_rows(
    rng: np.random.Generator,
    labels: LabelSet,
    kept: Labels,
    starts: NDArray[np.int64],
    n: int,
    *,
    count: int,
    hard_share: float,
) -> LinearRows:
    """``count`` rows of 3 to 11 real coefficients of both signs, constraint ids 0…; ``kept`` keeps the hard ones."""
    parts = []
    for r in range(count):
        size = int(rng.integers(3, 12))
        position = rng.integers(0, n, size).astype(np.int32)
        label = rng.integers(0, len(labels), size).astype(np.int32)
        previous = rng.integers(0, len(labels), size).astype(np.int32)
        previous[np.isin(position, starts) | (rng.random(size) < 0.6)] = ANY
        hard = rng.random() < hard_share
        row = LinearRows(
            np.array([0, size], np.int64),
            position,
            previous,
            label,
            rng.uniform(-1.0, 1.0, size),
            np.array([rng.uniform(-0.5, 0.8)]),
            np.array([np.inf if hard else rng.uniform(0.2, 4.0)]),
            np.array([r], np.int32),
        )
        row.bound[0] += float(row.degree(kept)[0]) if hard else 0.0
        parts.append(row)
    return LinearRows.join(parts)
