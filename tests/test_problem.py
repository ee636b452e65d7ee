"""The one objective against plain loops over rows and pairs of spans."""

from __future__ import annotations

import numpy as np
import pytest

from concord.schemas.labels import LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.problem import ANY, NO_KEY, LinearRows, Problem, Relation, SpanAgreement
from concord.testing.problems import (
    LABEL_SETS,
    all_labellings,
    enumerate_best,
    naive_keys,
    random_labelling,
    random_problem,
    random_words,
)
from concord.workers.constraints.consistency import span_keys
from tests.support.oracle import enumerate_marginals, naive_objective
from tests.support.seeds import over_seeds


@over_seeds()
def test_score_equals_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 8))
    ids, starts = random_words(rng, n)
    problem = random_problem(rng, words=(ids, starts), labels=LABEL_SETS[seed % len(LABEL_SETS)])

    def says(start: int, end: int) -> object:
        """The words themselves: also where the key table has none, for such spans match nothing."""
        inside_a_sentence = not any(start < s < end for s in starts.tolist())
        return tuple(ids[start:end]) if inside_a_sentence else None

    different = any(a.relation is Relation.DIFFERENT for a in problem.agreements)
    for _ in range(20):
        labels = random_labelling(rng, problem.labels, starts, n)
        got = problem.score(labels).objective
        assert got == pytest.approx(naive_objective(problem, labels))
        if not different:  # there a key that occurs once is told apart from no key at all
            assert got == pytest.approx(naive_objective(problem, labels, says))


@over_seeds()
def test_degree_and_penalty_agree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    for _ in range(10):
        labels = random_labelling(rng, problem.labels, problem.potentials.sentence_starts, len(problem))
        score = problem.score(labels)
        costly = {int(k) for k in problem.rows.constraint[problem.rows.weight > 0]}
        costly |= {a.constraint for a in problem.agreements}
        for k in sorted(costly):
            assert (score.degree[k] > 0) == (score.penalties[k] > 0)


def test_hard_rows_that_hold_cost_nothing() -> None:
    labels = LabelSet.bio(["PER"])
    potentials = Potentials(np.zeros((2, 3)), np.zeros((3, 3)), np.array([0])).legal(labels)
    rows = LinearRows(
        np.array([0, 1]),
        np.array([1], np.int32),
        np.array([ANY], np.int32),
        np.array([1], np.int32),
        np.ones(1),
        np.zeros(1),
        np.array([np.inf]),
        np.zeros(1, np.int32),
    )
    problem = Problem(potentials, labels, ("hard",), rows)
    assert problem.score(np.array([1, 2], np.int32)).objective == 0.0
    assert problem.score(np.array([0, 1], np.int32)).objective == -np.inf


def test_hard_rows_forgive_float_rounding() -> None:
    """0.1 + 0.2 ≤ 0.3 holds, though not in floating point."""
    labels = LabelSet.bio(["PER"])
    potentials = Potentials(np.zeros((2, 3)), np.zeros((3, 3)), np.array([0])).legal(labels)
    rows = LinearRows(
        np.array([0, 2]),
        np.array([0, 1], np.int32),
        np.array([ANY, ANY], np.int32),
        np.array([1, 1], np.int32),
        np.array([0.1, 0.2]),
        np.array([0.3]),
        np.array([np.inf]),
        np.zeros(1, np.int32),
    )
    problem = Problem(potentials, labels, ("hard",), rows)
    assert problem.score(np.array([1, 1], np.int32)).objective == 0.0


def test_finkel_example() -> None:
    """The worked example of Finkel et al. (2005) §5.1: a two-word name as PER and ORG, its first word as ORG."""
    labels = LabelSet.bio(["PER", "ORG"])
    words, starts = [7, 8, 7, 8, 7], np.array([0, 2, 4])
    key = naive_keys(words, starts.tolist(), 2)
    exact = np.array([[0.0, 1.0], [1.0, 0.0]])
    part = np.array([[0.0, 10.0], [10.0, 0.0]])
    problem = Problem(
        Potentials(np.zeros((5, 5)), np.zeros((5, 5)), starts).legal(labels),
        labels,
        ("exact", "part"),
        LinearRows.none(),
        (SpanAgreement(0, Relation.EXACT, key, exact), SpanAgreement(1, Relation.CONTAINED, key, part)),
    )
    score = problem.score(labels.encode(["B-PER", "I-PER", "B-ORG", "I-ORG", "B-ORG"]))
    assert score.penalties.tolist() == [2.0, 10.0]


@over_seeds()
def test_enumeration_agrees_with_itself(seed: int) -> None:
    problem = random_problem(np.random.default_rng(seed), tokens=1 + seed % 4)
    labels, best = enumerate_best(problem)
    every = [problem.score(y).objective for y in all_labellings(len(problem), len(problem.labels))]
    assert best == max(every)
    assert problem.score(labels).objective == best
    np.testing.assert_allclose(enumerate_marginals(problem).sum(axis=1), 1.0)


def test_infeasible_sets_have_no_labelling() -> None:
    for seed in range(20):
        problem = random_problem(np.random.default_rng(seed), infeasible=True, tokens=1 + seed % 4)
        assert enumerate_best(problem)[1] == -np.inf


@over_seeds()
def test_span_keys_equal_a_dict_of_ngrams(seed: int) -> None:
    """The same spans have the same key, whatever the keys are called."""
    rng = np.random.default_rng(seed)
    ids, starts = random_words(rng, int(rng.integers(1, 30)))
    width = int(rng.integers(1, 6))
    got = span_keys(np.array(ids, np.int32), starts, width)
    want = naive_keys(ids, starts.tolist(), width)
    assert ((got == NO_KEY) == (want == NO_KEY)).all()
    pairs = set(zip(got[got != NO_KEY].tolist(), want[want != NO_KEY].tolist(), strict=True))
    assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})
