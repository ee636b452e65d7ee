"""What a document costs: near linear in its length, and bounded by its limit of work."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from schemas.decoded import Budget, Status
from schemas.document import Document
from schemas.labels import LabelSet
from schemas.potentials import Potentials
from schemas.problem import Problem
from schemas.settings import CertifySettings, GibbsSettings
from workers.constraints.consistency import LabelConsistency, PairCounts
from workers.constraints.constraint_set import build_problem
from workers.inference.certify import engine as certify
from workers.inference.certify.engine import RELAXED
from workers.inference.core.engine import document_rng
from workers.inference.sampling import gibbs

LABELS = LabelSet.bio(["PER", "ORG", "LOC", "MISC"])


def repeated(tokens: int) -> Problem:
    """One word, a sentence each time, as likely of any type as of another."""
    document = Document.build("cost", [["Jordan"]] * tokens)
    unary = np.random.default_rng(0).normal(size=(tokens, len(LABELS)))
    pairs = np.full((4, 4), 5) + 1000 * np.eye(4, dtype=np.int64)
    constraints = LabelConsistency(PairCounts(LABELS.types, pairs, pairs, np.full(4, 200)))
    potentials = Potentials(unary, np.zeros((len(LABELS), len(LABELS))), document.sentence_starts).legal(LABELS)
    return build_problem(document, potentials, LABELS, constraints)


def cpu_seconds(run: Callable[[], object]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def test_a_word_eight_times_as_often_costs_the_sampler_about_eight_times_as_much() -> None:
    def sample(tokens: int) -> float:
        problem = repeated(tokens)
        config = GibbsSettings(sweeps=40)
        return cpu_seconds(lambda: gibbs.solve(problem, config=config, rng=document_rng(0, "cost")))

    sample(100)
    assert sample(24_000) < 14 * sample(3_000)


def test_the_sampler_has_a_limit_of_its_own() -> None:
    problem = repeated(1_000)
    decoded = gibbs.solve(problem, config=GibbsSettings(work=5_000), rng=document_rng(0, "cost"))
    assert decoded.status is Status.TIMEOUT
    assert 5_000 <= decoded.work < 20_000


def test_certify_relaxes_nothing_when_its_work_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certify, "relax", lambda *_: pytest.fail("the sampler had spent the budget"))
    problem, budget = repeated(2_000), Budget(work=100_000)
    decoded = certify.solve(problem, config=CertifySettings(), rng=document_rng(0, "cost"), budget=budget)
    assert decoded.status is Status.TIMEOUT
    assert 100_000 <= decoded.work < 120_000
    assert decoded.bound >= decoded.objective


def test_certify_counts_its_relaxations() -> None:
    problem = repeated(40)
    decoded = certify.solve(problem, config=CertifySettings(rounds=1), rng=document_rng(0, "cost"))
    assert decoded.work > RELAXED * len(problem)
