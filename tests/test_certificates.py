"""Certificates: what the checker accepts is a true bound, also of proofs that are made up or damaged."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concord.schemas.problem import ANY, LinearRows, Problem
from concord.testing.problems import EVERY_SET, LABEL_SETS, enumerate_best, random_problem
from concord.workers.certificates import writer
from concord.workers.certificates.checker import TOLERANCE, IntegerProblem, check
from concord.workers.certificates.writer import prove
from concord.workers.inference.certify import engine as certify
from concord.workers.inference.settings import CertifySettings
from tests.support.made_problems import names
from tests.support.made_up_proofs import accepts, damaged, made_up_node
from tests.support.ranked_problems import crowded, ranked
from tests.support.seeds import blocks, over_seeds

SLACK = 1.1 * TOLERANCE


def problem_of(seed: int) -> Problem:
    """Every label set and mixture of constraint kinds in turn."""
    rng = np.random.default_rng(seed)
    return random_problem(rng, labels=EVERY_SET[seed % len(EVERY_SET)], rows=seed % 5 != 1, agreements=seed % 5 != 2)


@settings(max_examples=150)
@given(st.integers(0, 10**9))
def test_made_up_proofs_are_accepted_for_true_bounds_only(seed: int) -> None:
    problem = problem_of(seed)
    best = enumerate_best(problem)[1]
    if best == -np.inf:
        return
    proof = made_up_node(np.random.default_rng(seed), IntegerProblem(problem))
    for less in (1e-5, 0.01, 0.2, 1.0, 4.0):
        assert not accepts(problem, best - less, proof), less


@settings(max_examples=40)
@given(st.integers(0, 10**9))
def test_damaged_proofs_are_accepted_for_true_bounds_only(seed: int) -> None:
    problem = problem_of(seed)
    labels, best = enumerate_best(problem)
    if best == -np.inf:
        return
    rng = np.random.default_rng(seed)
    proof = prove(problem, labels, best, nodes=60)
    if proof is None:
        return
    assert accepts(problem, best, proof)
    for _ in range(10):
        bad = damaged(rng, proof)
        for less in (1e-5, 0.01, 0.2, 1.0):
            assert not accepts(problem, best - less, bad), (bad, less)


@pytest.mark.parametrize("block", blocks(4))
def test_the_writer_finds_no_proof_below_what_can_be_reached(block: int) -> None:
    """The writer believes the checker: one that charges too much would let it prove too much."""
    for seed in range(8 * block, 8 * block + 8):
        found = ranked(crowded(seed))
        best = float(found.scores[0])
        assert prove(found.problem, found.labellings[0], best - 0.02, nodes=3) is None, seed


@over_seeds(stay=1, many=18)
def test_what_certify_proves_gets_a_certificate_that_proves_no_more(seed: int) -> None:
    problem = names(seed, 0.5)
    decoded = certify.solve(problem, config=CertifySettings(), rng=np.random.default_rng(0))
    assert decoded.certified
    proof = prove(problem, decoded.labels, decoded.bound, nodes=60)
    assert proof is not None
    check(problem, decoded.bound, proof)
    # Less than the labelling scores is no bound, however little less.
    assert not accepts(problem, decoded.objective - SLACK, proof)


@pytest.mark.parametrize("seed", range(5))
def test_prices_alone_prove_what_has_few_conflicts_until_the_work_is_spent(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = names(seed, 0.5)
    decoded = certify.solve(problem, config=CertifySettings(), rng=np.random.default_rng(0))
    assert prove(problem, decoded.labels, decoded.bound, nodes=1) is not None
    monkeypatch.setattr(writer, "MOST_WORK", 1_000)
    assert prove(problem, decoded.labels, decoded.bound, nodes=60) is None


@over_seeds(stay=1, many=18)
def test_a_certificate_is_not_one_of_a_problem_that_pays_less(seed: int) -> None:
    problem = names(seed, 0.5)
    decoded = certify.solve(problem, config=CertifySettings(), rng=np.random.default_rng(0))
    proof = prove(problem, decoded.labels, decoded.bound, nodes=60)
    assert proof is not None
    cheaper = dataclasses.replace(
        problem, agreements=tuple(dataclasses.replace(a, cost=0.5 * a.cost) for a in problem.agreements)
    )
    best = certify.solve(cheaper, config=CertifySettings(), rng=np.random.default_rng(0)).objective
    assert not accepts(cheaper, best - SLACK, proof)


def with_row(problem: Problem) -> Problem:
    """The same problem, where every token labelled PER beyond the third costs 0.7 nats."""
    people = [label for label, kind in enumerate(problem.labels.type_of) if kind == problem.labels.types.index("PER")]
    cells = [(token, label) for token in range(len(problem)) for label in people]
    position, label = np.array(cells, np.int32).T
    row = LinearRows(
        np.array([0, len(cells)]),
        position,
        np.full(len(cells), ANY, np.int32),
        label,
        np.ones(len(cells)),
        np.array([3.0]),
        np.array([0.7]),
        np.array([len(problem.constraint_names)], np.int32),
    )
    return dataclasses.replace(problem, rows=row, constraint_names=(*problem.constraint_names, "few people"))


@over_seeds(stay=1, many=18)
def test_rows_and_agreement_are_proven_together(seed: int) -> None:
    problem = with_row(names(seed, 0.5))
    decoded = certify.solve(problem, config=CertifySettings(), rng=np.random.default_rng(0))
    assert decoded.certified
    proof = prove(problem, decoded.labels, decoded.bound, nodes=60)
    assert proof is not None
    check(problem, decoded.bound, proof)
    assert not accepts(problem, decoded.objective - SLACK, proof)


def test_multipliers_of_rows_close_what_prices_cannot() -> None:
    apart = proven = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, labels=LABEL_SETS[seed % 4], rows=True, agreements=False)
        labels, best = enumerate_best(problem)
        if best == -np.inf or accepts(problem, best, [0, -1]):
            continue
        apart += 1
        proof = prove(problem, labels, best, nodes=1)
        if proof is not None:
            proven += 1
            check(problem, best, proof)
            assert not accepts(problem, best - SLACK, proof)
    assert apart > 10
    assert proven > 0.3 * apart, (proven, apart)


def test_a_document_without_penalty_needs_an_empty_proof() -> None:
    problem = dataclasses.replace(names(0, 0.5), agreements=())
    decoded = certify.solve(problem, config=CertifySettings(), rng=np.random.default_rng(0))
    assert prove(problem, decoded.labels, decoded.bound, nodes=1) == [0, -1]


def test_the_same_document_has_the_same_proof() -> None:
    problem = names(1, 0.5)
    labels = certify.solve(problem, config=CertifySettings(), rng=np.random.default_rng(0)).labels
    bound = problem.score(labels).objective
    assert prove(problem, labels, bound, nodes=60) == prove(problem, labels, bound, nodes=60)
