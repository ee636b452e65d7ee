"""Scores beyond a million nats, coefficients near a million: certificate, checker and score have one error budget."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from concord.schemas.arrays import Floats
from concord.schemas.decoded import Status
from concord.schemas.document import Batch
from concord.schemas.labels import LabelSet, Scheme
from concord.schemas.potentials import LARGEST_WEIGHT, Potentials
from concord.schemas.problem import ANY, LinearRows, Problem
from concord.testing.problems import EVERY_SET, enumerate_best, random_problem
from concord.workers.certificates.checker import CertificateError, check
from concord.workers.certificates.writer import prove
from concord.workers.constraints.constraint_file import ConstraintFileError, parse_constraints
from concord.workers.inference.certify import engine as certify
from concord.workers.inference.settings import CertifySettings
from concord.workers.labelling.labelled import check_settings, label_batch
from concord.workers.synthesis.made_up import synthesize
from tests.support.made_problems import names
from tests.support.made_runs import HashModel, consistency, key_of
from tests.support.made_up_proofs import UNIT, accepts

LABELS = LabelSet(("O", "x"), Scheme.PLAIN)


def scaled(problem: Problem, factor: float) -> Problem:
    """All nats times a factor."""
    p = problem.potentials
    return replace(
        problem,
        potentials=Potentials(p.unary * factor, p.transition * factor, p.sentence_starts),
        rows=replace(problem.rows, weight=problem.rows.weight * factor),
        agreements=tuple(replace(a, cost=a.cost * factor) for a in problem.agreements),
    )


def test_what_is_written_is_accepted_whatever_the_weights() -> None:
    rng, beyond, written = np.random.default_rng(0), 0, 0
    for seed in range(90):
        labels = EVERY_SET[seed % len(EVERY_SET)]
        problem = random_problem(rng, labels=labels, rows=seed % 5 != 1, agreements=seed % 5 != 2)
        problem = scaled(problem, float(10.0 ** rng.uniform(3.0, 6.0)))
        found, best = enumerate_best(problem)
        if best == -np.inf:
            continue
        beyond += abs(best) > 1e6
        proof = prove(problem, found, best, nodes=100)
        if proof is not None:
            written += 1
            check(problem, best, proof)
            for less in (1e-4, 0.14, 100.0):
                assert not accepts(problem, best - less - 1e-13 * abs(best), proof)
    assert beyond > 10
    assert written > 25


def novel(tokens: int) -> Problem:
    """A document of one word after the other that each score 90 nats, and a rule that some of them break."""
    rng = np.random.default_rng(tokens)
    starts = np.arange(0, tokens, 25)
    unary = np.stack([rng.normal(scale=5.0, size=tokens), rng.normal(90.0, 5.0, size=tokens)], axis=1)
    rows = LinearRows(
        np.array([0, tokens], np.int64),
        np.arange(tokens, dtype=np.int32),
        np.full(tokens, ANY, np.int32),
        np.ones(tokens, np.int32),
        np.full(tokens, 0.1),
        np.array([tokens / 10.0]),
        np.array([np.inf]),
        np.zeros(1, np.int32),
    )
    return Problem(Potentials(unary, np.zeros((2, 2)), starts), LABELS, ("few",), rows)


def test_a_document_of_more_than_a_million_nats_is_certified() -> None:
    problem = novel(15_000)
    answer = certify.solve(problem, config=CertifySettings(), rng=np.random.default_rng(0))
    assert answer.objective > 1.1e6
    assert answer.status is Status.OPTIMAL
    proof = prove(problem, answer.labels, answer.bound, nodes=1)
    assert proof == [0, -1]
    check(problem, answer.bound, proof)
    assert not accepts(problem, answer.bound - 1e-5, proof)


class Loud(HashModel):
    """A model whose weights are a hundred thousand times as large."""

    def potentials(self, batch: Batch) -> Potentials:
        p = super().potentials(batch)
        return Potentials(1e5 * p.unary, 1e5 * p.transition, p.sentence_starts)


def test_what_a_run_says_is_optimal_its_certificate_says_too() -> None:
    documents, constraints = Batch.of(list(synthesize(6, seed=3, kind="news"))), consistency()
    settings = key_of(constraints, engine="certify", options={}).settings
    settings = check_settings(settings.model_copy(update={"certificates": True}))
    labelled = label_batch(documents, model=Loud(), constraints=constraints, settings=settings)
    assert max(abs(decoded.bound) for decoded in labelled.decoded) > 1e6
    assert sum(proof is not None for proof in labelled.proofs) > 3
    problems = Loud().potentials(documents)
    assert len(problems) == sum(map(len, documents))
    assert all(
        decoded.status is Status.OPTIMAL
        for decoded, proof in zip(labelled.decoded, labelled.proofs, strict=True)
        if proof is not None and decoded.certified
    )


def test_a_bound_that_is_no_number_is_refused_and_any_number_is_read() -> None:
    problem = names(0, 0.5)
    for bound in (np.nan, np.inf, -np.inf, 1e300):
        with pytest.raises(CertificateError, match="a bound of"):
            check(problem, float(bound), [0, -1])
        assert prove(problem, np.zeros(len(problem), np.int32), float(bound), nodes=1) is None
    assert accepts(problem, 1e15, [0, -1])
    assert not accepts(problem, -1e15, [0, -1])


def edged(rng: np.random.Generator, rows: int) -> Problem:
    """Rows of coefficients near a million that their floats say hold, and exact numbers say are exceeded most."""
    size, found = 6, list[tuple[Floats, float]]()
    while len(found) < rows:
        coefficient = np.round(rng.uniform(0.9e6, 1e6, size), 3)
        exact = sum(map(Fraction, coefficient.tolist()))
        summed = float(np.bincount(np.zeros(size, np.int64), coefficient)[0])
        bound = float(np.nextafter(summed, -np.inf))
        if exact - Fraction(bound) > 2e-9 and summed - bound <= 1e-9:
            found.append((coefficient, bound))
    entries = size * rows
    linear = LinearRows(
        np.arange(0, entries + 1, size),
        np.tile(np.arange(size, dtype=np.int32), rows),
        np.full(entries, ANY, np.int32),
        np.ones(entries, np.int32),
        np.concatenate([coefficient for coefficient, _ in found]),
        np.array([bound for _, bound in found]),
        np.full(rows, 1e6),
        np.zeros(rows, np.int32),
    )
    unary = np.stack([np.full(size, -np.inf), np.ones(size)], axis=1)
    return Problem(Potentials(unary, np.zeros((2, 2)), np.zeros(1, np.int64)), LABELS, ("large",), linear)


def test_rows_that_hold_in_floats_are_not_charged_for_what_only_exact_sums_show() -> None:
    problem = edged(np.random.default_rng(0), 30)
    best = problem.score(np.ones(6, np.int32)).objective
    assert best == 6.0
    charged = [n for r in range(30) for n in (r, UNIT * 10**6)]
    proof = [1, 30, *charged, 0, -1]
    assert not accepts(problem, best - 0.01, proof)
    assert not accepts(problem, best - 1e-5, proof)
    assert accepts(problem, best, [0, -1])


def test_no_label_costs_more_than_the_largest_weight() -> None:
    entry = "{{template: linear, weight: {}, bound: 1, terms: [{{label: [x], coefficient: {}}}]}}"
    for weight, coefficient in (("1e6", "1"), ("1", "1e6"), ("hard", "1e6"), ("2", "-5e5")):
        parse_constraints(f"constraints: [{entry.format(weight, coefficient)}]", file="rows.yaml")
    for weight, coefficient in (("1e6", "1.5"), ("30", "1e6"), ("2.5", "-5e5")):
        with pytest.raises(ConstraintFileError, match=r"nats for one label, and 1,000,000 are the most; divide"):
            parse_constraints(f"constraints: [{entry.format(weight, coefficient)}]", file="rows.yaml")
    assert LARGEST_WEIGHT == 1e6
