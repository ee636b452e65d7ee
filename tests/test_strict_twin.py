"""Problems of loose labels and their strict twins have the same labellings and scores, and engines use that."""

from __future__ import annotations

import numpy as np
import pytest

from concord.schemas.decoded import Decoded, Status
from concord.schemas.labels import LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.problem import ANY, LinearRows, Problem, Relation, SpanAgreement
from concord.testing.problems import (
    EVERY_RELATION,
    LABEL_SETS,
    LOOSE_SETS,
    all_labellings,
    enumerate_best,
    random_labelling,
    random_problem,
)
from concord.workers.inference.core.strict_twin import StrictTwin
from concord.workers.inference.registry import SOLVERS, Decoder

PERSON = LOOSE_SETS[0]
EXACT = [name for name, solver in SOLVERS.items() if solver.exact]
TOKENS = {3: 4, 5: 3}
"""Of a problem, by its number of labels."""


def small(seed: int, relation: Relation, *, rows: bool = True) -> Problem:
    labels, rng = LOOSE_SETS[seed % 2], np.random.default_rng(seed)
    return random_problem(rng, labels=labels, tokens=TOKENS[len(labels)], rows=rows, relations=(relation,))


def twin_of(problem: Problem) -> StrictTwin:
    twin = StrictTwin.of(problem)
    assert twin is not None
    return twin


def one_name(unary: list[list[float]], *, rows: LinearRows | None = None) -> Problem:
    """A sentence of the words a b a b; each span costs 1 nat for each other place of its words that is left outside."""
    key = np.array([[0, 2], [1, -1], [0, 2], [1, -1]], np.int32)[: len(unary)]
    agreement = SpanAgreement(0, Relation.UNLABELLED, key, np.array([[1.0]]), per_token=False)
    potentials = Potentials(np.array(unary), np.zeros((3, 3)), np.zeros(1, np.int64))
    return Problem(potentials, PERSON, ("left out", "row"), rows or LinearRows.none(), (agreement,))


@pytest.mark.parametrize("relation", EVERY_RELATION)
def test_every_labelling_has_a_twin_of_the_same_score(relation: Relation) -> None:
    for seed in range(12):
        problem = small(seed, relation, rows=seed % 3 > 0)
        twin = twin_of(problem)
        met = set()
        for own in all_labellings(len(problem), len(problem.labels)):
            there = twin.there(own)
            met.add(there.tobytes())
            assert np.array_equal(twin.back(there), own)
            one, other = problem.score(own), twin.problem.score(there)
            assert one.local == other.local
            assert one.penalties.tolist() == other.penalties.tolist()
            assert one.degree.tolist() == other.degree.tolist()
        assert len(met) == len(problem.labels) ** len(problem)


def test_the_twin_has_no_other_labellings() -> None:
    for seed in range(6):
        problem = random_problem(np.random.default_rng(seed), labels=PERSON, tokens=4, rows=False)
        if not problem.agreements:
            continue
        twin = twin_of(problem)
        every = all_labellings(4, len(twin.problem.labels))
        possible = [own for own in every if twin.problem.potentials.score(own) > -np.inf]
        assert possible
        for own in possible:
            assert np.array_equal(twin.there(twin.back(own)), own)


def test_items_of_the_twin_are_named_by_the_types_of_the_problem() -> None:
    labels = LabelSet(("I-ORG", "B-PER", "O", "B-ORG", "I-PER"), PERSON.scheme)
    rng = np.random.default_rng(0)
    twin = twin_of(random_problem(rng, labels=labels, tokens=5, rows=False))
    for _ in range(200):
        own = random_labelling(rng, labels, twin.whole.potentials.sentence_starts, 5)
        spans = twin.problem.labels.spans(twin.there(own), twin.whole.potentials.sentence_starts)
        wanted = labels.spans(own, twin.whole.potentials.sentence_starts)
        found = twin.items(np.column_stack([spans.start, spans.end, spans.type]))
        assert found.tolist() == np.column_stack([wanted.start, wanted.end, wanted.type]).tolist()
    assert twin.items(np.array([[2, 3, -1]])).tolist() == [[2, 3, -1]]


def test_only_loose_labels_whose_spans_are_compared_need_a_twin() -> None:
    for seed, labels in enumerate(LABEL_SETS):
        assert StrictTwin.of(random_problem(np.random.default_rng(seed), labels=labels)) is None
    assert StrictTwin.of(random_problem(np.random.default_rng(0), labels=PERSON, agreements=False)) is None


@pytest.mark.parametrize("engine", EXACT)
def test_the_best_answer_has_a_span_that_no_b_opens(engine: str) -> None:
    """I-PER, O, O, O scores 11 nats: the words of the last three tokens are labelled nowhere."""
    key = np.array([[-1, -1], [0, 1], [0, 1], [0, -1]], np.int32)
    agreement = SpanAgreement(0, Relation.UNLABELLED, key, np.array([[3.0]]), per_token=False)
    unary = np.array([[0.0, 0.0, 3.0], [3.0, 0.0, 0.0], [3.0, 1.0, -1.0], [2.0, 3.0, 1.0]])
    potentials = Potentials(unary, np.zeros((3, 3)), np.zeros(1, np.int64))
    problem = Problem(potentials, PERSON, ("left out",), agreements=(agreement,))
    decoded = Decoder.of(engine)(problem, "")
    assert decoded.objective == enumerate_best(problem)[1] == 11.0
    assert decoded.certified
    assert decoded.gap <= 1e-6


@pytest.mark.parametrize("engine", EXACT)
def test_no_engine_prunes_what_an_inner_label_opens(engine: str) -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        problem = one_name(rng.integers(-1, 4, (4, 3)).astype(float).tolist())
        decoded = Decoder.of(engine)(problem, "d")
        assert decoded.objective == pytest.approx(enumerate_best(problem)[1], abs=1e-6), seed
        assert decoded.certified, seed


def test_what_holds_by_the_slack_of_its_twin_alone_is_no_answer() -> None:
    """A sum of more entries is rounded more: the twin's hard row has three entries for the one of I-PER."""
    size, unary, labels = 1e9 / 3.0, [[0.0, -1.0, 5.0], [0.0, -1.0, 0.0]], np.array([2, 0], np.int32)
    rough = one_name(unary, rows=hard_inner(size, size))
    slack = (rough.rows.slack[0] + twin_of(rough).problem.rows.slack[0]) / 2.0
    problem = one_name(unary, rows=hard_inner(size, size - slack))
    twin = twin_of(problem)
    own = twin.there(labels)
    assert (problem.score(labels).objective, twin.problem.score(own).objective) == (-np.inf, 5.0)
    found: Decoded = twin.answer(twin.problem.decoded(own, bound=5.0, status=Status.OPTIMAL))
    assert found.status is Status.TIMEOUT
    assert found.objective == -np.inf


def hard_inner(coefficient: float, bound: float) -> LinearRows:
    """A hard row: ``coefficient`` · [I-PER at the first token] ≤ ``bound``."""
    one = np.zeros(1, np.int32)
    return LinearRows(
        np.array([0, 1], np.int64),
        one,
        one + ANY,
        one + 2,
        np.array([coefficient]),
        np.array([bound]),
        np.array([np.inf]),
        one + 1,
    )
