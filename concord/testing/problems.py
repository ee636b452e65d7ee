"""Small random problems for tests of engines, and brute force over all of their labellings.

Problems have 1 to 7 tokens, forbidden labels and edges (−inf), soft and hard rows, and agreements of all kinds. On
request no labelling keeps all hard constraints.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Floats
from concord.schemas.labels import Labels, LabelSet, Scheme, Spans
from concord.schemas.potentials import Potentials
from concord.schemas.problem import ANY, NO_KEY, LinearRows, NamedSpans, Problem, Relation, SpanAgreement

LABEL_SETS = (
    LabelSet.bio(["PER"]),
    LabelSet.bio(["PER", "ORG"]),
    LabelSet(("O", "author"), Scheme.PLAIN),
    LabelSet(("author", "title", "date"), Scheme.PLAIN),
)
"""BIO and plain label sets, with and without a label for outside."""
LOOSE_SETS = tuple(LabelSet(labels.names, Scheme.LOOSE) for labels in LABEL_SETS[:2])
CROWDED = ("B-PER", "I-PER", "B-ORG", "I-ORG")
NARROW_SETS = (
    LabelSet(CROWDED, Scheme.BIO),
    LabelSet(CROWDED, Scheme.LOOSE),
    LabelSet(CROWDED[:2], Scheme.BIO),
    LabelSet(CROWDED[:2], Scheme.LOOSE),
    LabelSet(("author",), Scheme.PLAIN),
)
"""Label sets without a label for outside, of one type, and of one label."""
EVERY_SET = (*LABEL_SETS, *LOOSE_SETS, *NARROW_SETS)
"""Label sets of every scheme."""
EVERY_RELATION = tuple(Relation)
"""Every relation that an agreement can have."""

MAX_LABELLINGS = 20_000
HARD_SHARE = 0.4


def all_labellings(tokens: int, labels: int) -> Labels:
    """(L^N, N) all labellings, in lexicographic order."""
    if labels**tokens > 200_000:
        raise ValueError(f"{labels}^{tokens} labellings are too many to enumerate")
    grid = np.indices((labels,) * tokens, dtype=np.int32).reshape(tokens, -1)
    return np.ascontiguousarray(grid.T)


def local_scores(potentials: Potentials, labellings: Labels) -> Floats:
    """(M,) local score of each labelling (M, N) in nats, summed position by position."""
    starts = set(potentials.sentence_starts.tolist())
    total = np.zeros(len(labellings))
    for t in range(len(potentials)):
        total += potentials.unary[t, labellings[:, t]]
        if t not in starts:
            total += potentials.edges_by_token[t][labellings[:, t - 1], labellings[:, t]]
    return total


def enumerate_best(problem: Problem) -> tuple[Labels, float]:
    """The best labelling (N,) and its objective in nats; −inf where none is feasible.

    Penalties are never negative, so labellings are tried by falling local score, until the local score alone is no
    better than the best objective.
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


def naive_keys(words: Sequence[int], sentence_starts: Sequence[int], width: int) -> NDArray[np.int32]:
    """(N, W) `SpanAgreement.key` of a document, by counting every n-gram of its words in a dict."""
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


def random_labelling(rng: np.random.Generator, labels: LabelSet, sentence_starts: NDArray[np.int64], n: int) -> Labels:
    """A random legal labelling (N,)."""
    starts = set(sentence_starts.tolist())
    labelling = np.zeros(n, np.int32)
    for t in range(n):
        legal = labels.legal_start if t in starts else labels.legal_transition[labelling[t - 1]]
        labelling[t] = rng.choice(np.flatnonzero(legal))
    return labelling


def random_potentials(
    rng: np.random.Generator, labels: LabelSet, sentence_starts: NDArray[np.int64], n: int, *, forbid: float = 0.1
) -> tuple[Potentials, Labels]:
    """Random legal potentials with a labelling (N,) that is possible; a share ``forbid`` of other scores is −inf."""
    width = len(labels)
    unary = rng.normal(0.0, 2.0, (n, width))
    transition = rng.normal(0.0, 1.0, (width, width))
    labelling = random_labelling(rng, labels, sentence_starts, n)
    no_unary, no_transition = rng.random((n, width)) < forbid, rng.random((width, width)) < forbid
    no_unary[np.arange(n), labelling] = False
    no_transition[labelling[:-1], labelling[1:]] = False
    unary[no_unary], transition[no_transition] = -np.inf, -np.inf
    return Potentials(unary, transition, sentence_starts).legal(labels), labelling


def random_rows(
    rng: np.random.Generator,
    labels: LabelSet,
    labelling: Labels,
    starts: NDArray[np.int64],
    n: int,
    *,
    hard_share: float = HARD_SHARE,
) -> LinearRows:
    """One to three random rows, each a constraint with an id from 0 on; hard rows hold for ``labelling``."""
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
        excess = float(row.degree(labelling)[0])
        row.bound[0] += excess if hard else 0.0
        parts.append(row)
    return LinearRows.join(parts)


def impossible_rows(labels: LabelSet, n: int, constraint: int) -> LinearRows:
    """Two hard rows that no labelling keeps: of N tokens more than N // 2, and at most N // 2, have an even label."""
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
    rng: np.random.Generator,
    labels: LabelSet,
    key: NDArray[np.int32],
    constraint: int,
    spans: Spans,
    relations: Sequence[Relation] = EVERY_RELATION,
) -> SpanAgreement:
    """A random agreement over a key table; some costs are 0, some infinite, but none forbids the spans ``spans``."""
    relation = Relation(rng.choice([r.value for r in relations]))
    kinds = len(labels.types)
    cost = rng.uniform(0.2, 3.0, (kinds, kinds)) * (rng.random((kinds, kinds)) < 0.7)
    cost[rng.random((kinds, kinds)) < 0.1] = np.inf
    if relation is Relation.UNLABELLED:
        cost = cost[:, :1]
    elif relation is not Relation.CONTAINED:
        cost = (cost + cost.T) / 2.0
    per_token = relation is not Relation.DIFFERENT and bool(rng.random() < 0.5)
    agreement = SpanAgreement(constraint, relation, key, cost, per_token=per_token)
    if np.isinf(agreement.degree_and_penalty(NamedSpans.of(key, spans))[1]):
        cost[np.isinf(cost)] = 1.0
    return agreement


def random_words(rng: np.random.Generator, n: int) -> tuple[list[int], NDArray[np.int64]]:
    """Random words (n,) as ids, few enough to repeat, and the starts of one to three sentences."""
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
    relations: Sequence[Relation] = EVERY_RELATION,
    own_edges: bool = False,
) -> Problem:
    """A random problem of 1 to 7 tokens, small enough to enumerate (at most 20,000 labellings).

    - ``tokens``, ``labels``: number of tokens and label set; random by default
    - ``rows``, ``agreements``: does the problem have rows, and agreements?
    - ``infeasible``: does no labelling keep all hard rows? Otherwise at least one labelling is possible.
    - ``words``: token ids and sentence starts; random by default
    - ``relations``: those of the agreements, at random
    - ``own_edges``: has each token transitions of its own?
    """
    labels = labels or LABEL_SETS[int(rng.integers(len(LABEL_SETS)))]
    most = int(np.floor(np.log(MAX_LABELLINGS) / np.log(max(2, len(labels)))))
    n = tokens or (len(words[0]) if words else int(rng.integers(1, min(7, most) + 1)))
    ids, starts = words or random_words(rng, n)
    potentials, labelling = random_potentials(rng, labels, starts, n)
    if own_edges:
        added = rng.normal(0.0, 1.0, (n, len(labels), len(labels)))
        potentials = Potentials(potentials.unary, potentials.transition + added, starts)
    parts = [random_rows(rng, labels, labelling, starts, n)] if rows else []
    count = sum(len(p) for p in parts)
    if infeasible:
        parts.append(impossible_rows(labels, n, count))
        count += 1
    key = naive_keys(ids, starts.tolist(), int(rng.integers(1, 5)))
    size = int(rng.integers(1, 4)) if agreements else 0
    spans = labels.spans(labelling, starts)
    return Problem(
        potentials,
        labels,
        tuple(f"c{i}" for i in range(count + size)),
        LinearRows.join(parts),
        tuple(random_agreement(rng, labels, key, count + i, spans, relations) for i in range(size)),
    )
