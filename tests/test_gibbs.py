"""The sampler: its stationary distribution, its annealing, and the sums it keeps."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from concord.schemas.decoded import Budget, Status
from concord.schemas.labels import Labels, LabelSet, Scheme
from concord.schemas.potentials import Potentials
from concord.schemas.problem import Problem
from concord.testing.problems import enumerate_best, random_labelling, random_problem
from concord.workers.inference.core.agreement import codec, count_labels, labels_cost
from concord.workers.inference.core.chain import viterbi
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.rows import row_penalty, row_state, set_label
from concord.workers.inference.sampling import gibbs
from concord.workers.inference.sampling.diagnostics import LEAST_SWEEPS, diagnose, effective_samples, split_rhat
from concord.workers.inference.sampling.names import sites_of
from concord.workers.inference.sampling.state import Chain
from concord.workers.inference.sampling.sweep import anneal
from concord.workers.inference.settings import GibbsSettings
from tests.support.oracle import enumerate_marginals
from tests.support.seeds import over_seeds

HARD = 30.0


def soft_problem(seed: int, *, most: int = 4, rows: bool = True) -> Problem:
    """A random problem of up to ``most`` tokens with nothing hard: from any labelling a chain can go anywhere."""
    rng = np.random.default_rng(seed)
    while True:
        problem = random_problem(rng, tokens=int(rng.integers(1, most + 1)), rows=rows)
        hard = np.isinf(problem.rows.weight).any() or any(np.isinf(a.cost).any() for a in problem.agreements)
        if not hard:
            return problem


@over_seeds(stay=1, many=24)
def test_sampled_marginals_match_enumeration(seed: int) -> None:
    problem = soft_problem(seed)
    config = GibbsSettings(sweeps=4000, cooling="none", start="random")
    runs = [gibbs.sample(problem, config=config, rng=np.random.default_rng([seed, c])) for c in range(4)]
    draws = effective_samples(np.stack([trace.objective for trace, _ in runs]))
    expected = enumerate_marginals(problem).clip(0.0, 1.0)  # sums may round to a little more than 1
    seen = np.mean([share for _, share in runs], axis=0)
    # Five standard errors of a share seen in so many independent draws.
    assert (np.abs(seen - expected) <= 5.0 * np.sqrt(expected * (1 - expected) / draws) + 5.0 / draws).all()


@over_seeds()
def test_annealing_finds_the_optimum_of_small_problems(seed: int) -> None:
    problem = soft_problem(seed)
    config = GibbsSettings(sweeps=200, chains=2, start="random")
    decoded = gibbs.solve(problem, config=config, rng=np.random.default_rng(seed))
    assert decoded.objective == pytest.approx(enumerate_best(problem)[1])


def test_the_best_seen_is_returned_not_the_last() -> None:
    problem = soft_problem(3)
    hot = GibbsSettings(sweeps=50, temperature=50.0, cooling="none", start="random")
    decoded = gibbs.solve(problem, config=hot, rng=np.random.default_rng(0))
    assert decoded.objective >= problem.score(viterbi(problem.potentials)).objective


def labelling(problem: Problem, rng: np.random.Generator) -> Labels:
    return random_labelling(rng, problem.labels, problem.potentials.sentence_starts, len(problem))


@over_seeds()
def test_agreement_sums_equal_the_score(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = soft_problem(seed)
    state, arrays, labels = Prepared.of(problem).empty_state(HARD), codec(problem), labelling(problem, rng)
    cost = labels_cost(state, arrays, labels, 0, len(problem))
    count_labels(state, arrays, labels, 0, len(problem), 1)
    by_agreements = problem.score(labels).penalty - float((problem.rows.degree(labels) * problem.rows.weight).sum())
    assert cost == pytest.approx(by_agreements)
    count_labels(state, arrays, labels, 0, len(problem), -1)
    assert not state.counts.any()
    assert not state.holders.any()
    assert not state.total.any()
    assert not state.left_out.any()


def chain_of(problem: Problem, seed: int) -> Chain:
    """A chain from a random labelling."""
    prepared, config = Prepared.of(problem), GibbsSettings()
    sites, rng = sites_of(prepared, config.slot_loss), np.random.default_rng(seed)
    return gibbs.new_chain(prepared, sites, hard_weight=config.hard_weight, rng=rng, start=None)


@over_seeds()
def test_no_change_saves_more_than_what_is_remembered_that_a_token_pays(seed: int) -> None:
    problem = soft_problem(seed, most=12, rows=False)
    chain = chain_of(problem, seed)
    labels, kinds = chain.at.labels, len(problem.labels)
    for sweep in range(15):
        anneal(chain, np.array([2.0]), sweep, sys.maxsize)
        paid = problem.score(labels).penalty
        for t in np.flatnonzero(np.isfinite(chain.cost_bound)).tolist():
            ways = np.repeat(labels[None], kinds, axis=0)
            ways[:, t] = np.arange(kinds)
            assert paid - min(problem.score(way).penalty for way in ways) <= chain.cost_bound[t] + 1e-9


@over_seeds()
def test_row_sums_follow_label_by_label(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = soft_problem(seed)
    labels, target = labelling(problem, rng), labelling(problem, rng)
    state = row_state(problem, labels, HARD)
    penalty = row_penalty(state)
    for t in rng.permutation(len(problem)):
        penalty += set_label(state, labels, int(t), int(target[t]))
    assert labels.tolist() == target.tolist()
    assert penalty == pytest.approx(float((problem.rows.degree(target) * problem.rows.weight).sum()))


def test_without_constraints_a_random_start_ends_at_viterbi() -> None:
    rng = np.random.default_rng(5)
    problem = random_problem(rng, tokens=6, labels=LabelSet.bio(["PER"]), rows=False, agreements=False)
    config = GibbsSettings(sweeps=300, start="random")
    decoded = gibbs.solve(problem, config=config, rng=rng)
    assert decoded.labels.tolist() == viterbi(problem.potentials).tolist()


def test_plain_labels_are_sampled_too() -> None:
    rng = np.random.default_rng(8)
    labels = LabelSet(("author", "date", "title"), Scheme.PLAIN)
    problem = random_problem(rng, tokens=5, labels=labels, rows=False)
    decoded = gibbs.solve(problem, config=GibbsSettings(sweeps=200, chains=2), rng=rng)
    assert decoded.objective <= enumerate_best(problem)[1] + 1e-9


def test_the_work_budget_stops_the_chain() -> None:
    problem = next(p for p in map(soft_problem, range(99)) if p.agreements and Prepared.of(p).first.penalty > 0.0)
    config = GibbsSettings(sweeps=100_000)
    decoded = gibbs.solve(problem, config=config, rng=np.random.default_rng(0), budget=Budget(work=1000))
    assert 1000 <= decoded.work <= 1100
    assert decoded.status is Status.TIMEOUT


@over_seeds()
def test_a_chain_that_stops_anywhere_goes_on_there(seed: int) -> None:
    problem = soft_problem(seed, most=12)
    chains = [chain_of(problem, seed) for _ in range(2)]
    temperatures = np.linspace(2.0, 0.1, 30)
    assert anneal(chains[0], temperatures, 0, sys.maxsize) == 30
    sweep = 0
    while sweep < 30:
        sweep += anneal(chains[1], temperatures[sweep:], sweep, int(chains[1].now["work"][0]) + 1)
    assert chains[0].at.labels.tolist() == chains[1].at.labels.tolist()
    assert chains[0].now.tolist() == chains[1].now.tolist()


def one_label_moves() -> Problem:
    """The label of the first token is fixed, that of the second is free: a pair moves, of which one label changes."""
    labels = LabelSet(("author", "title"), Scheme.PLAIN)
    unary = np.array([[0.0, -np.inf], [0.0, 0.0]])
    return Problem(Potentials(unary, np.zeros((2, 2)), np.array([0])), labels)


def both_labels_move() -> Problem:
    """The first two tokens of four are a name or no name: neither label can change without the other."""
    labels = LabelSet.bio(["PER"])
    outside, opens, inside = (labels.index[name] for name in ("O", "B-PER", "I-PER"))
    unary, transition = np.zeros((4, 3)), np.zeros((3, 3))
    unary[0, inside] = unary[1, opens] = transition[opens, outside] = transition[outside, inside] = -np.inf
    return Problem(Potentials(unary, transition, np.array([0, 2])), labels)


@pytest.mark.parametrize(("problem", "sweep", "most"), [(one_label_moves(), 0, 1), (both_labels_move(), 1, 2)])
def test_only_labels_that_change_are_flips(problem: Problem, sweep: int, most: int) -> None:
    seen = set()
    for seed in range(40):
        chain = chain_of(problem, seed)
        before = chain.at.labels.copy()
        # What longer slots left behind is there, and is not read.
        chain.scratch.slot[:] = np.arange(len(chain.scratch.slot))[:, None]
        # No work is left after the first token, at which nothing but one move of two labels can change any.
        assert anneal(chain, np.array([1.0]), sweep, 1) == 0
        changed = int((chain.at.labels != before).sum())
        assert int(chain.now["flips"][0]) == changed
        seen.add(changed)
    assert seen == {0, most}


def test_diagnostics_tell_mixed_chains_from_stuck_ones() -> None:
    rng = np.random.default_rng(0)
    independent = rng.normal(size=(4, 2000))
    assert split_rhat(independent) == pytest.approx(1.0, abs=0.01)
    assert effective_samples(independent) == pytest.approx(8000, rel=0.1)
    stuck = independent + np.arange(4)[:, None] * 5.0
    assert split_rhat(stuck) > 2.0
    slow = np.cumsum(rng.normal(size=(4, 2000)), axis=1)
    assert effective_samples(slow) < 400
    assert split_rhat(np.zeros((2, 10))) == 1.0
    with pytest.raises(ValueError, match="at least 4"):
        split_rhat(np.zeros((2, 3)))


def test_as_few_sweeps_as_allowed_are_enough() -> None:
    few, rng = GibbsSettings(sweeps=LEAST_SWEEPS), np.random.default_rng(0)
    assert diagnose(soft_problem(2), config=few, rng=rng).objective.shape == (4, LEAST_SWEEPS)
    with pytest.raises(ValueError, match="too few"):
        diagnose(soft_problem(2), config=few.model_copy(update={"sweeps": LEAST_SWEEPS - 1}), rng=rng)


def test_a_small_problem_mixes() -> None:
    found = diagnose(soft_problem(2), config=GibbsSettings(sweeps=2000), rng=np.random.default_rng(0))
    assert found.split_rhat < 1.05
    assert found.effective_samples > 500
    assert found.best == pytest.approx(enumerate_best(soft_problem(2))[1])
