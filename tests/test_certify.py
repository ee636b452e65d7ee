"""Certified inference: what pruning may take away, how components are cut, and what is said of an open document."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from concord.schemas.decoded import Status
from concord.testing.problems import all_labellings, enumerate_best, random_problem
from concord.workers.inference.certify import engine as certify
from concord.workers.inference.certify.components import Pruned, part_of
from concord.workers.inference.core.chain import viterbi, viterbi_score
from concord.workers.inference.core.effort import Effort
from concord.workers.inference.core.engine import UNLIMITED
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.spans import candidate_spans
from concord.workers.inference.relaxation.relaxation import relax
from concord.workers.inference.sampling import gibbs
from concord.workers.inference.settings import CertifySettings, GibbsSettings
from tests.support.made_problems import names_in_sentences
from tests.support.seeds import over_seeds


@over_seeds(stay=1, many=24)  # seed 9 has by far the most labellings
def test_pruning_keeps_every_better_labelling(seed: int) -> None:
    problem = random_problem(np.random.default_rng(seed))
    best = viterbi_score(problem.potentials)
    incumbent = problem.score(viterbi(problem.potentials)).objective
    if incumbent == -np.inf:
        incumbent = enumerate_best(problem)[1]
    loss = best - incumbent + 1e-9
    sentences = len(problem.potentials.sentence_starts)
    pruned = Pruned.of(Prepared.of(problem), loss)
    allowed = pruned.allowed(np.full(sentences, loss))
    alive = pruned.alive_spans(np.full(sentences, loss))
    kept = set(zip(alive.start.tolist(), alive.end.tolist(), alive.type.tolist(), strict=True))
    for labels in all_labellings(len(problem), len(problem.labels)):
        if problem.score(labels).objective <= incumbent:
            continue
        assert allowed[np.arange(len(problem)), labels].all()
        spans = problem.labels.spans(labels, problem.potentials.sentence_starts)
        has = set(zip(spans.start.tolist(), spans.end.tolist(), spans.type.tolist(), strict=True))
        assert not problem.agreements or has <= kept


@over_seeds()
def test_candidate_spans_lose_what_enumeration_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, tokens=int(rng.integers(1, 5)), rows=False)
    found = candidate_spans(Prepared.of(problem), 50.0)
    losses = dict(
        zip(
            zip(found.start.tolist(), found.end.tolist(), found.type.tolist(), strict=True),
            found.loss.tolist(),
            strict=True,
        )
    )
    best = viterbi_score(problem.potentials)
    expected: dict[tuple[int, int, int], float] = {}
    for labels in all_labellings(len(problem), len(problem.labels)):
        loss = best - problem.potentials.score(labels)
        spans = problem.labels.spans(labels, problem.potentials.sentence_starts)
        for span in zip(spans.start.tolist(), spans.end.tolist(), spans.type.tolist(), strict=True):
            expected[span] = min(loss, expected.get(span, np.inf))
    within = {span: loss for span, loss in expected.items() if loss <= 50.0}
    assert losses.keys() == within.keys()
    assert losses == pytest.approx(within, abs=1e-9)


@over_seeds(stay=1, many=18)
def test_components_score_apart_what_they_score_together(seed: int) -> None:
    problem = names_in_sentences(seed, 8, words=20)
    sampled = gibbs.solve(problem, config=GibbsSettings(sweeps=20), rng=np.random.default_rng(seed)).labels
    local = viterbi(problem.potentials)
    loss = viterbi_score(problem.potentials) - problem.score(sampled).objective
    pruned = Pruned.of(Prepared.of(problem), loss)
    components = pruned.components(np.full(8, loss))
    assert len(np.unique(np.concatenate([np.zeros(0), *components]))) == sum(len(c) for c in components)
    parts = [part_of(Prepared.of(problem), component, pruned.sentence) for component in components]
    mixed = local.copy()
    apart = problem.potentials.score(local)
    for part, tokens in parts:
        mixed[tokens] = sampled[tokens]
        apart += part.score(sampled[tokens]).objective - part.potentials.score(local[tokens])
    assert problem.score(mixed).objective == pytest.approx(apart)


def test_agreeing_documents_need_no_solver() -> None:
    problem = names_in_sentences(0, 4)
    free = replace(problem, agreements=())
    decoded = certify.solve(free, config=CertifySettings(), rng=np.random.default_rng(0))
    assert decoded.certified
    assert decoded.work == 0
    assert decoded.labels.tolist() == viterbi(problem.potentials).tolist()


def test_what_cp_sat_closes_rests_on_its_word() -> None:
    problem = names_in_sentences(1, 12, words=25, cost=0.5)
    by_solver = certify.solve(problem, config=CertifySettings(rounds=0, branches=0), rng=np.random.default_rng(0))
    by_itself = certify.solve(replace(problem, agreements=()), config=CertifySettings(), rng=np.random.default_rng(0))
    assert (by_solver.status, by_itself.status) == (Status.BY_SOLVER, Status.OPTIMAL)
    assert by_solver.certified
    assert by_itself.certified


def test_an_open_document_states_its_gap() -> None:
    problem = names_in_sentences(1, 12, words=25, cost=0.5)
    rng = np.random.default_rng(0)
    exact = certify.solve(problem, config=CertifySettings(), rng=rng)
    cut = certify.solve(
        problem, config=CertifySettings(deterministic_seconds=1e-6, rounds=0, branches=0), rng=np.random.default_rng(0)
    )
    assert exact.certified
    assert cut.status is Status.TIMEOUT
    assert cut.gap > 0.0
    assert cut.bound >= exact.objective >= cut.objective


def test_a_component_beyond_the_limit_keeps_its_incumbent() -> None:
    problem = names_in_sentences(1, 12, words=25, cost=0.5)
    config = CertifySettings(most_tokens=10, rounds=0)
    decoded = certify.solve(problem, config=config, rng=np.random.default_rng(0))
    assert decoded.status is Status.TIMEOUT
    assert decoded.bound == pytest.approx(viterbi_score(problem.potentials))


@over_seeds()
def test_relaxing_bounds_the_optimum_and_keeps_it(seed: int) -> None:
    problem = random_problem(np.random.default_rng(seed), rows=False)
    labels, best = enumerate_best(problem)
    incumbent = gibbs.solve(problem, config=GibbsSettings(sweeps=2), rng=np.random.default_rng(seed)).labels
    if problem.score(incumbent).objective == -np.inf:
        incumbent = labels
    relaxed = relax(Prepared.of(problem), incumbent, problem.score(incumbent), Effort(UNLIMITED))
    assert problem.score(relaxed.labels).objective >= problem.score(incumbent).objective
    assert max(relaxed.bound, problem.score(relaxed.labels).objective) >= best - 1e-6
    if problem.score(relaxed.labels).objective < best - 1e-6:
        assert relaxed.problem.score(labels).objective == pytest.approx(best)


def test_the_incumbent_replaces_the_sampler() -> None:
    problem = names_in_sentences(2, 6)
    best = certify.solve(problem, config=CertifySettings(), rng=np.random.default_rng(0))
    again = certify.solve(problem, config=CertifySettings(), rng=np.random.default_rng(0), incumbent=best.labels)
    assert again.objective == pytest.approx(best.objective)
    assert again.certified
