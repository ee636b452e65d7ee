"""Agreements that compare by tables of their own, of different widths: what that means, to every engine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concord.schemas.decoded import Status
from concord.schemas.labels import LabelSet, Scheme
from concord.schemas.potentials import Potentials
from concord.schemas.problem import NO_KEY, LinearRows, Problem, Relation, SpanAgreement
from concord.testing.engines import check_answer
from concord.testing.problems import enumerate_best, naive_keys, random_labelling
from concord.workers.constraints.consistency import span_keys
from concord.workers.inference.core.agreement import codec, labels_cost
from concord.workers.inference.core.chain import viterbi
from concord.workers.inference.core.effort import Effort
from concord.workers.inference.core.engine import UNLIMITED
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.spans import candidate_spans
from concord.workers.inference.relaxation.ascent import ascend, ascent_from
from concord.workers.inference.relaxation.groups import PricedGroups
from concord.workers.inference.relaxation.relaxation import chains_of, relax
from tests.support.judged import EXACT, run
from tests.support.oracle import naive_objective
from tests.support.referees.problems import Kind, problem_of_kind

LABELS = LabelSet(("x", "y"), Scheme.PLAIN)


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), parts=st.sampled_from(["agreements", "both"]))
def test_the_score_is_what_plain_loops_say(seed: int, parts: str) -> None:
    rng = np.random.default_rng(seed)
    problem = problem_of_kind(rng, Kind("8-15", parts, "soft"))
    for _ in range(5):
        labels = random_labelling(rng, problem.labels, problem.potentials.sentence_starts, len(problem))
        expected = naive_objective(problem, labels)
        assert problem.score(labels).objective == pytest.approx(expected, rel=1e-9, abs=1e-9)


def crossed(seed: int) -> Problem:
    """Few words in short sentences; two tables of different widths, each with agreements of its own."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 8))
    starts = np.array([0, *sorted(rng.permutation(np.arange(1, n))[:2].tolist())], np.int64)
    words = rng.integers(0, 2, n).tolist()
    potentials = Potentials(rng.normal(0.0, 1.0, (n, 2)), rng.normal(0.0, 1.0, (2, 2)), starts)
    narrow, wide = int(rng.integers(1, 3)), int(rng.integers(3, 5))
    tables = [naive_keys(words, starts.tolist(), width) for width in (narrow, wide)]
    relations = [Relation.CONTAINED, Relation(rng.choice([r.value for r in Relation])), Relation.CONTAINED]
    made = []
    for i, relation in enumerate(relations):
        cost = rng.uniform(0.2, 2.0, (2, 2))
        if relation is Relation.UNLABELLED:
            cost = cost[:, :1]
        elif relation is not Relation.CONTAINED:
            cost = cost + cost.T
        made.append(SpanAgreement(i, relation, tables[i // 2], cost, per_token=relation is Relation.CONTAINED))
    return Problem(potentials, LABELS, ("a", "b", "c"), LinearRows.none(), tuple(made))


def test_what_engines_count_is_what_the_score_charges() -> None:
    rng = np.random.default_rng(0)
    for seed in range(60):
        problem = crossed(seed)
        labels = random_labelling(rng, LABELS, problem.potentials.sentence_starts, len(problem))
        counted = labels_cost(Prepared.of(problem).empty_state(1e3), codec(problem), labels, 0, len(labels))
        assert counted == pytest.approx(problem.score(labels).penalty), seed


@pytest.mark.parametrize("engine", EXACT)
def test_engines_read_several_tables_as_the_score_does(engine: str) -> None:
    for seed in range(40):
        problem = crossed(seed)
        best = enumerate_best(problem)[1]
        decoded = run(engine, problem)
        check_answer(problem, decoded, best)
        assert decoded.status in (Status.OPTIMAL, Status.BY_SOLVER), seed


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**32 - 1),
    parts=st.sampled_from(["agreements", "both"]),
    force=st.sampled_from(["hard", "soft", "mixed"]),
)
def test_proofs_hold_for_weights_of_any_magnitude(seed: int, parts: str, force: str) -> None:
    problem = problem_of_kind(np.random.default_rng(seed), Kind("2-7", parts, force))
    best = enumerate_best(problem)[1]
    for engine in ("certify", "cpsat", "astar"):
        decoded = run(engine, problem)
        assert decoded.bound >= best - 1e-6, engine
        assert decoded.status is not Status.INFEASIBLE, engine
        if decoded.status in (Status.OPTIMAL, Status.BY_SOLVER):
            assert decoded.objective == pytest.approx(best, abs=1e-6), engine


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_key_of_words_names_one_length(seed: int) -> None:
    rng = np.random.default_rng(seed)
    starts = np.array([0, int(rng.integers(1, 12))], np.int64)
    keys = span_keys(rng.integers(0, 3, 12).astype(np.int32), starts, 4)
    for wide in range(4):
        for narrow in range(wide):
            assert not set(keys[:, wide].tolist()) & set(keys[:, narrow].tolist()) - {NO_KEY}


def test_spans_that_make_no_labelling_bound_everything() -> None:
    """Nothing is traced through a sentence that the spans left cannot make: its path would be whatever memory held."""
    problem = Prepared.of(crossed(0))
    chains = chains_of(problem, candidate_spans(problem, -1.0))
    assert len(chains.start) == 0
    ints = np.zeros(0, np.int64)
    groups = PricedGroups(ints, ints, np.zeros(1, np.int64), np.zeros(1, np.int64), ints, np.zeros((0, 0, 0)))
    ascent = ascent_from(chains, groups, np.zeros(0))
    assert not ascend(ascent, 8.0, 1.0, 5, 1000)
    assert ascent.now["best_value"][0] == np.inf


def test_a_problem_with_nothing_better_is_not_relaxed() -> None:
    problem = crossed(1)
    labels = viterbi(problem.potentials)
    p = problem.potentials
    score = problem.score(labels)
    worse = Potentials(p.unary - 10.0, p.transition, p.sentence_starts)
    relaxed = relax(Prepared.of(replace(problem, potentials=worse)), labels, score, Effort(UNLIMITED))
    assert (relaxed.bound, relaxed.objective) == (score.objective, score.objective)
