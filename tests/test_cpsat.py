"""CP-SAT over the lattice: rounding as part of the proof, limits, reduced lattices, counted spans."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from concord.schemas.decoded import Budget, Status
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.problem import ANY, LinearRows, Problem, Relation, SpanAgreement
from concord.testing.problems import (
    LABEL_SETS,
    all_labellings,
    enumerate_best,
    naive_keys,
    random_potentials,
    random_problem,
    random_words,
)
from concord.workers.inference.core.chain import max_marginals, viterbi, viterbi_score
from concord.workers.inference.cpsat import engine as cpsat
from concord.workers.inference.cpsat import lattice_spans
from concord.workers.inference.cpsat.draft import TRUE, ModelDraft
from concord.workers.inference.cpsat.engine import solve_model
from concord.workers.inference.cpsat.lattice import NoLabellingError, build_model
from concord.workers.inference.settings import CpSatSettings
from tests.support import oracle
from tests.support.seeds import over_seeds


def solve(problem: Problem, **settings: float) -> tuple[Labels, float, float]:
    """Labels, objective and bound of the model alone, started at the Viterbi labelling, with no shortcut."""
    tolerance = settings.get("tolerance", 1e-6)
    model = build_model(problem, start=viterbi(problem.potentials), tolerance=tolerance)
    found = solve_model(model, problem, tolerance=tolerance, deterministic_seconds=30.0, seed=0)
    assert found.labels is not None
    return found.labels, problem.score(found.labels).objective, found.bound


def real_rows(rng: np.random.Generator, n: int, labels: int, *, hard: bool) -> LinearRows:
    """A row with real coefficients, which no small factor makes integral; it can be kept."""
    size = 6
    return LinearRows(
        np.array([0, size], np.int64),
        rng.integers(0, n, size).astype(np.int32),
        np.full(size, ANY, np.int32),
        rng.integers(0, labels, size).astype(np.int32),
        rng.uniform(0.0, 1.0, size),
        np.array([rng.uniform(0.0, 0.3)]),
        np.array([np.inf if hard else rng.uniform(0.5, 4.0)]),
        np.zeros(1, np.int32),
    )


def crowded(seed: int, n: int, *, cost: float = 1.0) -> Problem:
    """n tokens of few words under EXACT and CONTAINED agreement, in sentences of 15: every key is common."""
    rng = np.random.default_rng(seed)
    labels = LabelSet.bio(["PER", "ORG", "LOC"])
    starts = np.arange(0, n, 15)
    key = naive_keys(rng.integers(0, 6, n).tolist(), starts.tolist(), 4)
    costs = cost * (1.0 - np.eye(3))
    potentials = Potentials(rng.normal(0.0, 2.0, (n, 7)), rng.normal(0.0, 1.0, (7, 7)), starts).legal(labels)
    agreements = (
        SpanAgreement(0, Relation.EXACT, key, costs),
        SpanAgreement(1, Relation.CONTAINED, key, costs),
    )
    return Problem(potentials, labels, ("exact", "part"), LinearRows.none(), agreements)


@pytest.mark.parametrize("tolerance", [1e-1, 1e-3, 1e-6, 1e-9])
def test_rounding_only_raises_the_bound(tolerance: float) -> None:
    for seed in range(15):
        problem = random_problem(np.random.default_rng(seed))
        best = enumerate_best(problem)[1]
        _, objective, bound = solve(problem, tolerance=tolerance)
        assert bound >= best - 1e-9
        assert best - objective <= 2.0 * tolerance + 1e-9
        assert bound - objective <= 4.0 * tolerance + 1e-9


@pytest.mark.parametrize("hard", [False, True])
def test_rows_with_real_coefficients(hard: bool) -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)
        plain = random_problem(rng, rows=False, agreements=False, tokens=4, labels=LABEL_SETS[seed % 4])
        rows = real_rows(rng, 4, len(plain.labels), hard=hard)
        problem = Problem(plain.potentials, plain.labels, ("real",), rows)
        best = enumerate_best(problem)[1]
        decoded = cpsat.solve(problem, config=CpSatSettings(), rng=rng)
        if best == -np.inf:
            assert decoded.status is Status.INFEASIBLE
            continue
        assert decoded.certified
        assert decoded.objective == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("hard_share", [1.0, 0.5])
def test_crowded_rows_with_real_coefficients(hard_share: float) -> None:
    """Presolve by inclusion (google/or-tools#5293) claims false optima on six of these."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        starts = random_words(rng, 8)[1]
        potentials, kept = random_potentials(rng, LABEL_SETS[0], starts, 8)
        count = int(rng.integers(4, 9))
        rows = oracle.real_rows(rng, LABEL_SETS[0], kept, starts, 8, count=count, hard_share=hard_share)
        problem = Problem(potentials, LABEL_SETS[0], tuple(f"c{r}" for r in range(count)), rows)
        best = enumerate_best(problem)[1]
        _, objective, bound = solve(problem)
        assert bound >= best - 1e-9, seed
        assert objective == pytest.approx(best, abs=3e-6), seed


def test_without_constraints_the_model_finds_the_chain_optimum() -> None:
    for seed in range(20):
        problem = random_problem(np.random.default_rng(seed), rows=False, agreements=False)
        _, objective, bound = solve(problem)
        assert objective == pytest.approx(viterbi_score(problem.potentials), abs=1e-6)
        assert bound == pytest.approx(objective, abs=1e-6)


@pytest.mark.parametrize("most_pairs", [0, 5, 10_000])
def test_counted_and_paired_spans_agree(most_pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lattice_spans, "MOST_PAIRS", most_pairs)
    for seed in range(60):
        problem = random_problem(np.random.default_rng(seed), rows=seed % 2 == 0, labels=LABEL_SETS[seed % 4])
        _, objective, bound = solve(problem)
        best = enumerate_best(problem)[1]
        assert objective == pytest.approx(best, abs=1e-6), seed
        assert bound == pytest.approx(best, abs=1e-5), seed


@over_seeds()
def test_restricted_labels_equal_brute_force_over_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, labels=LABEL_SETS[seed % 4])
    labels = viterbi(problem.potentials)
    allowed = rng.random((len(problem), len(problem.labels))) < 0.5
    allowed[np.arange(len(problem)), labels] = True
    best = -np.inf
    for y in all_labellings(len(problem), len(problem.labels)):
        if allowed[np.arange(len(y)), y].all():
            best = max(best, problem.score(y).objective)
    model = build_model(problem, start=labels, allowed=allowed)
    found = solve_model(model, problem, tolerance=1e-6, deterministic_seconds=10.0, seed=0)
    if best == -np.inf:
        assert found.infeasible
        return
    assert found.labels is not None
    assert allowed[np.arange(len(labels)), found.labels].all()
    assert problem.score(found.labels).objective == pytest.approx(best, abs=1e-6)


def test_pruning_by_an_incumbent_keeps_the_proof() -> None:
    """Labels whose max-marginal is below an incumbent's objective are in no better labelling."""
    for seed in range(25):
        problem = random_problem(np.random.default_rng(seed), rows=False)
        best = enumerate_best(problem)[1]
        p = problem.potentials
        bounds = np.append(p.sentence_starts, len(problem))
        per_token = np.repeat([viterbi_score(p.part(a, b)) for a, b in pairwise(bounds)], np.diff(bounds))
        allowed = viterbi_score(p) - (per_token[:, None] - max_marginals(p)) >= best - 1e-9
        model = build_model(problem, start=viterbi(p), allowed=allowed)
        found = solve_model(model, problem, tolerance=1e-6, deterministic_seconds=10.0, seed=0)
        assert found.labels is not None
        assert problem.score(found.labels).objective == pytest.approx(best, abs=1e-6)


def test_fixed_tokens_cost_no_variables() -> None:
    problem = random_problem(np.random.default_rng(3), tokens=5, rows=False, agreements=False)
    labels = viterbi(problem.potentials)
    allowed = np.zeros((5, len(problem.labels)), np.bool_)
    allowed[np.arange(5), labels] = True
    model = build_model(problem, start=labels, allowed=allowed)
    assert len(model.model.proto.variables) == 1  # the constant
    assert model.offset == pytest.approx(problem.potentials.score(labels))


def test_no_label_left() -> None:
    problem = random_problem(np.random.default_rng(0), tokens=3)
    with pytest.raises(NoLabellingError, match="token 0"):
        build_model(problem, start=np.zeros(3, np.int32), allowed=np.zeros((3, len(problem.labels)), np.bool_))


def test_hints_are_a_solution_of_the_model() -> None:
    """The labelling's own slacks, spans and counts: CP-SAT takes a complete hint as its first solution."""
    for seed in range(30):
        problem = random_problem(np.random.default_rng(seed), labels=LABEL_SETS[seed % 4])
        start = enumerate_best(problem)[0]
        model = build_model(problem, start=start)
        proto = model.model.proto
        values = list(proto.solution_hint.values)
        cost = sum(c * values[v] for v, c in zip(proto.objective.vars, proto.objective.coeffs, strict=True))
        assert model.offset - cost / model.scale == pytest.approx(problem.score(start).objective, abs=1e-5)
        for constraint in proto.constraints:
            linear = constraint.linear
            if any(values[v] == 0 for v in constraint.enforcement_literal) or not len(linear.domain):
                continue
            total = sum(c * values[v] for v, c in zip(linear.vars, linear.coeffs, strict=True))
            assert linear.domain[0] <= total <= linear.domain[1]


@pytest.mark.parametrize("seconds", [1e-6, 0.02])
def test_long_documents_time_out_with_a_valid_bound(seconds: float) -> None:
    problem = crowded(0, 150)
    config = CpSatSettings(deterministic_seconds=seconds)
    decoded = cpsat.solve(problem, config=config, rng=np.random.default_rng(0))
    start = problem.score(viterbi(problem.potentials))
    assert decoded.status is Status.TIMEOUT
    assert start.objective <= decoded.objective <= decoded.bound <= start.local
    assert decoded.gap > 0.0


def test_the_deterministic_limit_gives_the_same_bytes() -> None:
    problem = crowded(1, 45)
    answers = [
        cpsat.solve(problem, config=CpSatSettings(), rng=np.random.default_rng(7), budget=Budget(work=work))
        for work in (30, 30)
    ]
    assert answers[0].labels.tobytes() == answers[1].labels.tobytes()
    assert (answers[0].bound, answers[0].work) == (answers[1].bound, answers[1].work)


def test_documents_too_long_to_model_are_not_modelled() -> None:
    problem = crowded(2, 60)
    decoded = cpsat.solve(problem, config=CpSatSettings(most_tokens=50), rng=np.random.default_rng(0))
    assert decoded.status is Status.TIMEOUT
    assert decoded.bound == problem.potentials.score(viterbi(problem.potentials))


def test_infeasible_sets_are_proven() -> None:
    for seed in range(15):
        problem = random_problem(np.random.default_rng(seed), infeasible=True, tokens=1 + seed % 6)
        decoded = cpsat.solve(problem, config=CpSatSettings(), rng=np.random.default_rng(0))
        assert decoded.status is Status.INFEASIBLE
        assert decoded.bound == -np.inf


def test_huge_scores_lower_the_scale_instead_of_overflowing() -> None:
    plain = random_problem(np.random.default_rng(5), rows=True, agreements=True, tokens=4)
    p = plain.potentials
    big = Potentials(p.unary * 1e9, p.transition * 1e9, p.sentence_starts)
    problem = Problem(big, plain.labels, plain.constraint_names, plain.rows, plain.agreements)
    model = build_model(problem, start=viterbi(big))
    found = solve_model(model, problem, tolerance=1e-6, deterministic_seconds=10.0, seed=0)
    assert found.labels is not None
    assert problem.score(found.labels).objective == pytest.approx(enumerate_best(problem)[1], rel=1e-9)


def test_rows_that_cannot_be_broken_are_left_out() -> None:
    draft = ModelDraft(1.0)
    x = draft.variable(hint=0)
    draft.at_most([(x, 1), (x, 1)], 2)
    assert not len(draft.model.proto.constraints)
    draft.at_most([(x, 2), (TRUE, 1)], 2)
    (only,) = draft.model.proto.constraints
    assert list(only.linear.domain) == [0, 1]
