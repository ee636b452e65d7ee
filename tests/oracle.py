"""Brute force on small problems: what every engine and the objective itself are checked against.

Nothing here shares code with the package's own scoring but the data classes, so that an error
has to be made twice to go unseen. Plain loops, straight from the papers' definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from concord.schemas.labels import Labels, LabelSet, Scheme, Spans
from concord.schemas.potentials import Floats, Potentials
from concord.schemas.problem import ANY, NO_KEY, LinearRows, NamedSpans, Problem, Relation, SpanAgreement

LABEL_SETS = (
    LabelSet.bio(["PER"]),
    LabelSet.bio(["PER", "ORG"]),
    LabelSet(("O", "author"), Scheme.PLAIN),
    LabelSet(("author", "title", "date"), Scheme.PLAIN),
)
LOOSE_SETS = tuple(LabelSet(labels.names, Scheme.LOOSE) for labels in LABEL_SETS[:2])
EVERY_SET = (*LABEL_SETS, *LOOSE_SETS)
MAX_LABELLINGS = 20_000
HARD_SHARE = 0.4

Span = tuple[int, int, int]
"""Start, end (exclusive), type."""


def all_labellings(tokens: int, labels: int) -> Labels:
    """(L^N, N) every labelling, in lexicographic order."""
    if labels**tokens > 200_000:
        raise ValueError(f"{labels}^{tokens} labellings are too many to enumerate")
    grid = np.indices((labels,) * tokens, dtype=np.int32).reshape(tokens, -1)
    return np.ascontiguousarray(grid.T)


def local_scores(potentials: Potentials, labellings: Labels) -> Floats:
    """(M,) local score of every labelling (M, N), one position at a time."""
    starts = set(potentials.sentence_starts.tolist())
    total = np.zeros(len(labellings))
    for t in range(len(potentials)):
        total += potentials.unary[t, labellings[:, t]]
        if t not in starts:
            total += potentials.transition[labellings[:, t - 1], labellings[:, t]]
    return total


def enumerate_best(problem: Problem) -> tuple[Labels, float]:
    """The best labelling (N,) and its objective; −inf where none is feasible.

    Penalties are never negative, so labellings are tried by falling local score until that alone
    is no better than the best objective.
    """
    labellings = all_labellings(len(problem), len(problem.labels))
    local = local_scores(problem.potentials, labellings)
    best, value = labellings[int(local.argmax())], -np.inf
    for i in np.argsort(-local, kind="stable"):
        if local[i] <= value:
            break
        objective = problem.score(labellings[i]).objective
        if objective > value:
            best, value = labellings[i], objective
    return best, value


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


def naive_keys(words: Sequence[int], sentence_starts: Sequence[int], width: int) -> NDArray[np.int32]:
    """(N, W) `SpanAgreement.key` of a document by its words, by counting every n-gram in a dict."""
    ends = [*list(sentence_starts)[1:], len(words)]
    counts: dict[tuple[int, ...], int] = {}
    places: dict[tuple[int, int], tuple[int, ...]] = {}
    for first, last in zip(sentence_starts, ends, strict=True):
        for start in range(first, last):
            for length in range(1, min(width, last - start) + 1):
                gram = tuple(words[start : start + length])
                places[start, length] = gram
                counts[gram] = counts.get(gram, 0) + 1
    names = {gram: i for i, gram in enumerate(g for g in counts if counts[g] > 1)}
    keys = np.full((len(words), width), NO_KEY, np.int32)
    for (start, length), gram in places.items():
        keys[start, length - 1] = names.get(gram, NO_KEY)
    return keys


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


def random_labelling(rng: np.random.Generator, labels: LabelSet, sentence_starts: NDArray[np.int64], n: int) -> Labels:
    """A random legal labelling (N,)."""
    starts = set(sentence_starts.tolist())
    chosen = np.zeros(n, np.int32)
    for t in range(n):
        legal = labels.legal_start if t in starts else labels.legal_transition[chosen[t - 1]]
        chosen[t] = rng.choice(np.flatnonzero(legal))
    return chosen


def random_potentials(
    rng: np.random.Generator, labels: LabelSet, sentence_starts: NDArray[np.int64], n: int, *, forbid: float = 0.1
) -> tuple[Potentials, Labels]:
    """Random legal potentials, a ``forbid`` share of the entries −inf, and a labelling that stays possible."""
    width = len(labels)
    unary = rng.normal(0.0, 2.0, (n, width))
    transition = rng.normal(0.0, 1.0, (width, width))
    kept = random_labelling(rng, labels, sentence_starts, n)
    no_unary, no_transition = rng.random((n, width)) < forbid, rng.random((width, width)) < forbid
    no_unary[np.arange(n), kept] = False
    no_transition[kept[:-1], kept[1:]] = False
    unary[no_unary], transition[no_transition] = -np.inf, -np.inf
    return Potentials(unary, transition, sentence_starts).legal(labels), kept


def random_rows(
    rng: np.random.Generator,
    labels: LabelSet,
    kept: Labels,
    starts: NDArray[np.int64],
    n: int,
    *,
    hard_share: float = HARD_SHARE,
) -> LinearRows:
    """One to three random rows, constraint ids 0…; the hard ones hold for the labelling ``kept``."""
    parts = []
    for r in range(int(rng.integers(1, 4))):
        size = int(rng.integers(1, 6))
        position = rng.integers(0, n, size).astype(np.int32)
        label = rng.integers(0, len(labels), size).astype(np.int32)
        previous = rng.integers(0, len(labels), size).astype(np.int32)
        previous[np.isin(position, starts) | (rng.random(size) < 0.5)] = ANY
        coefficient = rng.choice([-2.0, -1.0, 1.0, 2.0, 0.5], size)
        hard = rng.random() < hard_share
        bound = float(rng.integers(-2, 2))
        row = LinearRows(
            np.array([0, size], np.int64),
            position,
            previous,
            label,
            coefficient,
            np.array([bound]),
            np.array([np.inf if hard else rng.uniform(0.0, 3.0)]),
            np.array([r], np.int32),
        )
        # A row that the kept labelling breaks is moved until it just holds.
        excess = float(row.degree(kept)[0])
        row.bound[0] += excess if hard else 0.0
        parts.append(row)
    return LinearRows.join(parts)


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


def impossible_rows(labels: LabelSet, n: int, constraint: int) -> LinearRows:
    """Hard rows no labelling keeps: the labels with an even id occur N + 1 times, odd ones at most N."""
    position = np.repeat(np.arange(n, dtype=np.int32), len(labels))
    label = np.tile(np.arange(len(labels), dtype=np.int32), n)
    entries = len(position)
    return LinearRows(
        np.array([0, entries, 2 * entries], np.int64),
        np.tile(position, 2),
        np.full(2 * entries, ANY, np.int32),
        np.tile(label, 2),
        np.concatenate([-1.0 * (label % 2 == 0), 1.0 * (label % 2 == 0)]),
        np.array([-(n // 2 + 1.0), float(n // 2)]),
        np.array([np.inf, np.inf]),
        np.full(2, constraint, np.int32),
    )


def random_agreement(
    rng: np.random.Generator, labels: LabelSet, key: NDArray[np.int32], constraint: int, kept: Spans
) -> SpanAgreement:
    """A random agreement over a key table; some costs are zero, some hard, but none that forbids ``kept``."""
    relation = Relation(rng.choice([r.value for r in Relation]))
    kinds = len(labels.types)
    cost = rng.uniform(0.2, 3.0, (kinds, kinds)) * (rng.random((kinds, kinds)) < 0.7)
    cost[rng.random((kinds, kinds)) < 0.1] = np.inf
    if relation is Relation.UNLABELLED:
        cost = cost[:, :1]
    elif relation is not Relation.CONTAINED:
        cost = (cost + cost.T) / 2.0
    per_token = relation is not Relation.DIFFERENT and bool(rng.random() < 0.5)
    agreement = SpanAgreement(constraint, relation, key, cost, per_token=per_token)
    if np.isinf(agreement.degree_and_penalty(NamedSpans.of(key, kept))[1]):
        cost[np.isinf(cost)] = 1.0
    return agreement


def random_words(rng: np.random.Generator, n: int) -> tuple[list[int], NDArray[np.int64]]:
    """Words of a small alphabet, so that they repeat, and one to three sentences of them."""
    cuts = rng.permutation(np.arange(1, n))[: int(rng.integers(0, 3))]
    starts = np.array([0, *sorted(cuts.tolist())], np.int64)
    return [int(w) for w in rng.integers(0, int(rng.integers(1, 4)), n)], starts


def random_problem(
    rng: np.random.Generator,
    *,
    tokens: int | None = None,
    labels: LabelSet | None = None,
    rows: bool = True,
    agreements: bool = True,
    infeasible: bool = False,
    words: tuple[list[int], NDArray[np.int64]] | None = None,
) -> Problem:
    """A random problem of 1 to 7 tokens, small enough to enumerate (at most 20,000 labellings).

    It has at least one possible labelling unless ``infeasible``. ``words`` are token ids and
    sentence starts; random ones where they are not given.
    """
    labels = labels or LABEL_SETS[int(rng.integers(len(LABEL_SETS)))]
    most = int(np.floor(np.log(MAX_LABELLINGS) / np.log(len(labels))))
    n = tokens or (len(words[0]) if words else int(rng.integers(1, min(7, most) + 1)))
    ids, starts = words or random_words(rng, n)
    potentials, kept = random_potentials(rng, labels, starts, n)
    parts = [random_rows(rng, labels, kept, starts, n)] if rows else []
    count = sum(len(p) for p in parts)
    if infeasible:
        parts.append(impossible_rows(labels, n, count))
        count += 1
    key = naive_keys(ids, starts.tolist(), int(rng.integers(1, 5)))
    size = int(rng.integers(1, 4)) if agreements else 0
    spans = labels.spans(kept, starts)
    return Problem(
        potentials,
        labels,
        tuple(f"c{i}" for i in range(count + size)),
        LinearRows.join(parts),
        tuple(random_agreement(rng, labels, key, count + i, spans) for i in range(size)),
    )
