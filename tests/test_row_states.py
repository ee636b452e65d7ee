"""Dynamic programming over states of rows, against all labellings: over labels, and over spans under costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import concord
from concord.schemas.arrays import Floats, Ints
from concord.schemas.decoded import Status
from concord.schemas.labels import Labels, LabelSet, Scheme
from concord.schemas.problem import ANY, LinearRows, Problem
from concord.testing.problems import (
    EVERY_SET,
    LABEL_SETS,
    all_labellings,
    enumerate_best,
    local_scores,
    random_labelling,
    random_potentials,
    random_problem,
)
from concord.workers.inference.certify.branching import relaxed_node
from concord.workers.inference.chains.row_states import (
    Nodes,
    RowsOnChain,
    RowStates,
    best_over_states,
    label_nodes,
    span_nodes,
)
from concord.workers.inference.core.effort import Effort
from concord.workers.inference.core.engine import UNLIMITED
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.spans import CandidateSpans
from concord.workers.inference.relaxation.row_dual import charged
from tests.support.seeds import over_seeds

MANY = 2_000
"""States enough for any problem here."""


def rows_alone(seed: int, labels: LabelSet) -> Problem:
    rng = np.random.default_rng(seed)
    tokens, infeasible = 1 + seed % 5, seed % 9 == 0
    return random_problem(
        rng, labels=labels, tokens=tokens, agreements=False, infeasible=infeasible, own_edges=seed % 4 == 0
    )


def some_multipliers(rng: np.random.Generator, rows: LinearRows) -> Floats:
    """Multipliers (R,) from 0 to each row's weight; some are 0, and those of hard rows are not too large."""
    drawn: Floats = rng.random(len(rows)) * np.minimum(rows.weight, 5.0) * (rng.random(len(rows)) < 0.7)
    return drawn


def walked(problem: Problem, nodes: Nodes, rng: np.random.Generator, *, target: float, states: int) -> RowStates:
    multipliers = some_multipliers(rng, problem.rows)
    chain = charged(Prepared.of(problem), multipliers).problem.potentials
    whole = RowsOnChain(problem.potentials, chain, problem.rows, multipliers, nodes)
    return best_over_states(whole, target=target, states=states)


@over_seeds(stay=20, many=200)
def test_over_labels_it_finds_the_best_labelling(seed: int) -> None:
    problem, rng = rows_alone(seed, EVERY_SET[seed % len(EVERY_SET)]), np.random.default_rng(seed)
    labellings = all_labellings(len(problem), len(problem.labels))
    scores = np.array([problem.score(labels).objective for labels in labellings])
    nodes = label_nodes(problem.potentials.unary)
    found = walked(problem, nodes, rng, target=-np.inf, states=MANY)
    assert_best(problem, found, scores.max())
    # Only what is better than the target is of interest, and is still found.
    second = np.sort(scores[np.isfinite(scores)])[-2:-1]
    if len(second):
        found = walked(problem, nodes, rng, target=float(second[0]), states=MANY)
        assert found.bound <= max(scores.max(), second[0]) + 1e-9
        assert found.labels is None or problem.score(found.labels).objective >= scores.max() - 1e-9
    found = walked(problem, nodes, rng, target=float(scores.max()), states=MANY)
    assert found.bound <= scores.max() + 1e-9
    few = walked(problem, nodes, rng, target=-np.inf, states=1)
    assert few.bound >= scores.max() - 1e-9
    assert few.labels is None or scores.max() + 1e-9 >= problem.score(few.labels).objective


@over_seeds(stay=20, many=200)
def test_over_spans_it_finds_the_best_labelling_under_their_costs(seed: int) -> None:
    strict = [labels for labels in LABEL_SETS if labels.scheme is Scheme.BIO]
    problem, rng = rows_alone(seed, strict[seed % len(strict)]), np.random.default_rng(seed)
    spans = some_spans(problem, rng)
    span_cost, outside_cost = rng.normal(0.0, 1.0, len(spans)), rng.normal(0.0, 1.0, len(problem))
    nodes = span_nodes(problem.potentials.unary, problem.labels, spans, span_cost, outside_cost)
    scores = {
        tuple(labels.tolist()): problem.score(labels).objective - cost
        for labels in all_labellings(len(problem), len(problem.labels))
        if (cost := items_cost(problem, labels, spans, span_cost, outside_cost)) < np.inf
    }
    best = max(scores.values(), default=-np.inf)
    found = walked(problem, nodes, rng, target=-np.inf, states=MANY)
    if best == -np.inf:
        assert found.labels is None
        assert found.bound == -np.inf
    else:
        assert found.labels is not None
        assert abs(scores[tuple(found.labels.tolist())] - best) < 1e-9
        assert abs(found.bound - best) < 1e-6
    few = walked(problem, nodes, rng, target=-np.inf, states=2)
    assert few.bound >= best - 1e-9


def some_spans(problem: Problem, rng: np.random.Generator) -> CandidateSpans:
    """Most of the spans that any labelling has, ordered by start."""
    labellings = all_labellings(len(problem), len(problem.labels))
    starts = problem.potentials.sentence_starts
    possible = labellings[np.isfinite(local_scores(problem.potentials, labellings))]
    every = [problem.labels.spans(labels, starts) for labels in possible]
    items = {item for s in every for item in zip(s.start.tolist(), s.end.tolist(), s.type.tolist(), strict=True)}
    chosen = sorted(item for item in sorted(items) if rng.random() < 0.8)
    return CandidateSpans(np.array(chosen, np.int64).reshape(-1, 3), np.zeros(len(chosen)))


def items_cost(
    problem: Problem, labels: Labels, spans: CandidateSpans, span_cost: Floats, outside_cost: Floats
) -> float:
    """What a labelling's items cost in nats; inf if it has a span that is not one of ``spans``."""
    known = dict(
        zip(zip(spans.start.tolist(), spans.end.tolist(), spans.type.tolist(), strict=True), span_cost, strict=True)
    )
    own = problem.labels.spans(labels, problem.potentials.sentence_starts)
    cost = float(outside_cost[problem.labels.type_of[labels] < 0].sum())
    items = zip(own.start.tolist(), own.end.tolist(), own.type.tolist(), strict=True)
    return cost + sum(float(known.get(item, np.inf)) for item in items)


def assert_best(problem: Problem, found: RowStates, best: float) -> None:
    if best == -np.inf:
        assert found.labels is None
        assert found.bound == -np.inf
        return
    assert found.labels is not None
    assert abs(problem.score(found.labels).objective - best) < 1e-9
    assert abs(found.bound - best) < 1e-6


@over_seeds(stay=60, many=300)
def test_rows_under_prices_bound_every_labelling(seed: int) -> None:
    """From a poor labelling: rows exact, agreement by its prices; and the bound holds with one state a token, too."""
    rng = np.random.default_rng(seed)
    strict = [labels for labels in LABEL_SETS if labels.scheme is Scheme.BIO]
    problem = Prepared.of(random_problem(rng, labels=strict[seed % len(strict)], tokens=3 + seed % 3))
    starts = problem.potentials.sentence_starts
    start = random_labelling(rng, problem.labels, starts, len(problem))
    score = problem.score(start)
    if score.objective == -np.inf:
        return
    best = enumerate_best(problem)[1]
    for states in (1, MANY):
        relaxed, _ = relaxed_node(problem, problem, start, score, Effort(UNLIMITED), states=states)
        assert relaxed.bound >= best - 1e-9
        assert best + 1e-9 >= relaxed.objective >= score.objective


def document_wide(tokens: int, seed: int, sentences: int) -> Problem:
    """A document of three fields with "at most one" and "at least one" of each, and "a after b" at each token."""
    rng = np.random.default_rng(seed)
    labels = LabelSet(("B-A", "I-A", "B-B", "I-B", "B-C", "I-C"), Scheme.BIO)
    starts = np.linspace(0, tokens, sentences, endpoint=False).astype(np.int64)
    potentials, _ = random_potentials(rng, labels, starts, tokens, forbid=0.0)
    every, rows = np.arange(tokens), list[LinearRows]()
    for opening in (0, 2, 4):
        rows += [
            one_row(every, np.full(tokens, opening), np.ones(tokens), 1.0, rng.uniform(1.0, 6.0)),
            one_row(every, np.full(tokens, opening), -np.ones(tokens), -1.0, rng.uniform(1.0, 6.0)),
        ]
    for t in range(tokens - 1):
        where = np.arange(t, tokens)
        rows.append(one_row(where, np.where(where == t, 2, 0), np.where(where == t, 1.0, -1.0), 0.0, 2.0))
    return Problem(potentials, labels, ("rule",), LinearRows.join(rows), ())


def one_row(position: Ints, label: Ints, coefficient: Floats, bound: float, weight: float) -> LinearRows:
    return LinearRows(
        np.array([0, len(position)], np.int64),
        position.astype(np.int32),
        np.full(len(position), ANY, np.int32),
        label.astype(np.int32),
        coefficient.astype(np.float64),
        np.array([bound]),
        np.array([weight]),
        np.zeros(1, np.int32),
    )


def test_rows_over_whole_documents_are_proven_without_a_solver_and_as_cpsat_says() -> None:
    for seed in range(4):
        problem = document_wide(14, seed, sentences=1 + seed % 3)
        answer = concord.solve(problem, engine="certify", doc_id="d")
        other = concord.solve(problem, engine="cpsat", doc_id="d")
        assert answer.status is Status.OPTIMAL
        assert abs(answer.objective - other.objective) < 1e-5


def test_rows_over_a_long_document_have_few_states_from_one_end() -> None:
    problem = document_wide(20, 1, sentences=2)
    nodes = label_nodes(problem.potentials.unary)
    # A row for each token asks for an A after it: from the back, all are kept once there was one.
    found = walked(problem, nodes, np.random.default_rng(0), target=-np.inf, states=350)
    assert found.labels is not None
    assert abs(found.bound - problem.score(found.labels).objective) < 1e-6


def test_a_row_without_tokens_costs_every_labelling_the_same() -> None:
    problem = rows_alone(1, LABEL_SETS[0])
    empty = one_row(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), -2.0, 1.5)
    nodes, rng = label_nodes(problem.potentials.unary), np.random.default_rng(0)
    alone = walked(replace(problem, rows=LinearRows.none()), nodes, rng, target=-np.inf, states=MANY)
    beside = walked(replace(problem, rows=empty), nodes, rng, target=-np.inf, states=MANY)
    assert abs(alone.bound - 3.0 - beside.bound) < 1e-9
