"""What a document costs: near linear in its length, and bounded by its limit of work."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from concord.schemas.decoded import Budget, Status
from concord.schemas.problem import Problem
from concord.workers.inference.certify import engine as certify
from concord.workers.inference.certify.components import Pruned
from concord.workers.inference.core.chain import viterbi
from concord.workers.inference.core.effort import Effort
from concord.workers.inference.core.engine import document_rng
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.relaxation.groups import MOST_LOOKED, PricedGroups, group_cost, workspace_for
from concord.workers.inference.relaxation.relaxation import Relaxed, relax
from concord.workers.inference.sampling import gibbs
from concord.workers.inference.settings import CertifySettings, GibbsSettings
from tests.support.made_repeats import repeated


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


def test_certify_samples_nothing_when_its_work_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certify, "_sample", lambda *_: pytest.fail("the relaxation had spent the budget"))
    problem, budget = repeated(2_000), Budget(work=100_000)
    decoded = certify.solve(problem, config=CertifySettings(), rng=document_rng(0, "cost"), budget=budget)
    assert decoded.status is Status.TIMEOUT
    assert 100_000 <= decoded.work < 100_000 + 2 * 2_000 * 5 * 250
    assert decoded.bound >= decoded.objective


def relaxed(tokens: int, work: int | None) -> tuple[Problem, Effort, Relaxed]:
    problem, effort = repeated(tokens), Effort(Budget(work=work))
    labels = np.full(tokens, np.flatnonzero(problem.labels.type_of < 0)[0], np.int32)
    return problem, effort, relax(Prepared.of(problem), labels, problem.score(labels), effort)


@pytest.mark.parametrize("work", [0, 30_000, 300_000, 3_000_000, 10_000_000])
def test_a_relaxation_ends_when_its_work_is_spent(work: int) -> None:
    """It may exceed it by a step of ascent, or a last look at everything: some looks at each span and slot."""
    problem, effort, found = relaxed(1_500, work)
    top = problem.potentials.score(viterbi(problem.potentials))
    assert work - 1 <= effort.work <= work + 1_500 * 5 * 250
    assert found.objective <= found.bound <= top
    assert (found.bound < top) == (work > 0)
    assert problem.score(found.labels).objective == found.objective


def test_more_work_proves_more() -> None:
    bounds = [relaxed(1_500, work)[2].bound for work in (0, 1_000_000, 30_000_000)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] < 0.5 * bounds[0]


def test_a_relaxation_of_a_word_eight_times_as_often_is_about_eight_times_the_work() -> None:
    work = [relaxed(tokens, None)[1].work / tokens for tokens in (500, 4_000)]
    assert work[1] < 2.5 * work[0]


def test_a_group_of_many_slots_is_looked_at_in_few_boxes() -> None:
    """Two types that clash in all slots, which each could be of either: no more boxes than fit the limit."""
    slots = 40_000
    pair = np.array([[[0.0, 1e-4], [1e-4, 0.0]]])
    groups = PricedGroups(
        np.arange(2 * slots),
        np.tile([0, 1], slots),
        np.arange(0, 2 * slots + 1, 2),
        np.array([0, slots]),
        np.array([2]),
        pair,
    )
    prices, workspace = np.random.default_rng(0).uniform(size=2 * slots), workspace_for(groups)
    bound = group_cost(groups, 0, prices, workspace, np.zeros(2 * slots, np.bool_))
    assert workspace.looked[0] <= 2 * MOST_LOOKED
    best = prices.reshape(-1, 2).max(axis=1).sum()
    assert -best <= bound <= min(-prices[::2].sum(), -prices[1::2].sum())


def test_joins_of_a_word_forty_thousand_times_end() -> None:
    """Pair by pair these would be billions of looks."""
    problem = repeated(40_000)
    pruned = Pruned.of(Prepared.of(problem), 1e6)
    whole = pruned.components(np.full(len(problem), 1e6))
    assert [part.tolist() for part in whole] == [list(range(len(problem)))]


def test_certify_ends_by_itself() -> None:
    problem = repeated(1_500)
    config = CertifySettings(work=5_000_000)
    decoded = certify.solve(problem, config=config, rng=document_rng(0, "cost"))
    assert decoded.status is Status.TIMEOUT
    assert 5_000_000 <= decoded.work < 5_000_000 + 2 * 1_500 * 5 * 250
    assert decoded.objective <= decoded.bound <= problem.potentials.score(viterbi(problem.potentials))
