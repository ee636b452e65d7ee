"""The relaxation's bound, and what it strikes out, against enumeration and against CP-SAT."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concord.schemas.arrays import Floats
from concord.schemas.labels import LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.problem import LinearRows, Problem, Relation, SpanAgreement
from concord.testing.problems import all_labellings, enumerate_best, naive_keys, random_problem
from concord.workers.inference.core.chain import viterbi, viterbi_score
from concord.workers.inference.core.effort import Effort
from concord.workers.inference.core.engine import UNLIMITED
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.spans import candidate_spans
from concord.workers.inference.cpsat import engine as cpsat
from concord.workers.inference.relaxation import relaxation
from concord.workers.inference.relaxation.block_descent import descend, finish, start_at
from concord.workers.inference.relaxation.groups import (
    MOST_COUNT_BOXES,
    PricedGroups,
    group_cost,
    member_losses,
    workspace_for,
)
from concord.workers.inference.relaxation.relaxation import UNLIMITED_WORK, chains_of, relax
from concord.workers.inference.relaxation.sentences import lattice_for, solve_rest, solve_sentence
from concord.workers.inference.settings import CpSatSettings
from tests.support.made_problems import names_in_sentences
from tests.support.seeds import over_seeds


@over_seeds(many=32)  # seed 9 has by far the most labellings
@pytest.mark.parametrize("too_many", [1, relaxation.TOO_MANY])
def test_the_bound_holds_and_no_better_labelling_is_struck_out(
    seed: int, too_many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relaxation, "TOO_MANY", too_many)
    problem = random_problem(np.random.default_rng(seed))
    start = viterbi(problem.potentials)
    if problem.score(start).objective == -np.inf:
        start = enumerate_best(problem)[0]
    if problem.score(start).objective == -np.inf:
        return  # no labelling is possible
    relaxed = relax(Prepared.of(problem), start, problem.score(start), Effort(UNLIMITED))
    best = enumerate_best(problem)[1]
    reached = problem.score(relaxed.labels).objective
    assert problem.score(start).objective <= reached <= best + 1e-9
    assert relaxed.bound >= best - 1e-9
    possible = np.isfinite(relaxed.problem.potentials.unary)
    for labels in all_labellings(len(problem), len(problem.labels)):
        if problem.score(labels).objective > reached + 1e-6:
            assert possible[np.arange(len(problem)), labels].all()


@pytest.mark.parametrize("seed", [0, 1, 2, pytest.param(3, marks=pytest.mark.slow), 4])  # 3 takes as long as all
def test_the_bound_is_close_where_names_conflict(seed: int) -> None:
    problem = names_in_sentences(seed, 5)
    start = viterbi(problem.potentials)
    exact = cpsat.solve(problem, config=CpSatSettings(deterministic_seconds=60.0), rng=np.random.default_rng(0))
    assert exact.certified
    relaxed = relax(Prepared.of(problem), start, problem.score(start), Effort(UNLIMITED))
    assert relaxed.bound >= exact.objective - 1e-5
    # Without prices the bound is the local optimum; prices must win back most of what agreement costs.
    assert viterbi_score(problem.potentials) - relaxed.bound > 0.5 * (
        viterbi_score(problem.potentials) - exact.objective
    )


@st.composite
def priced_groups(draw: st.DrawFn, *, roles: int) -> tuple[PricedGroups, Floats]:
    """One group of up to five slots with prices of its memberships; pairs of some roles cost nothing."""
    held = draw(st.lists(st.sets(st.integers(0, roles - 1), min_size=1), min_size=1, max_size=5))
    role = np.array([r for slot in held for r in sorted(slot)], np.int64)
    pair = np.zeros((roles, roles))
    for a, b in itertools.combinations(range(roles), 2):
        pair[a, b] = pair[b, a] = draw(st.sampled_from([0.0, 0.5, 1.0, 2.5]))
    prices = draw(
        st.lists(st.sampled_from([0.0, 0.3, 0.7, 1.0, 2.0, 3.1, 6.0]), min_size=len(role), max_size=len(role))
    )
    slots = np.cumsum([0, *map(len, held)])
    bounds = np.array([0, len(held)], np.int64)
    return PricedGroups(np.arange(len(role)), role, slots, bounds, np.array([roles]), pair[None]), np.array(prices)


def enumerated(groups: PricedGroups, prices: Floats) -> tuple[float, Floats]:
    """The group's least cost, and the least with each membership, by trying every assignment of its slots."""
    least, forced = np.inf, np.full(len(prices), np.inf)
    choices = [[None, *range(a, b)] for a, b in itertools.pairwise(groups.slots.tolist())]
    for chosen in itertools.product(*choices):
        known = [m for m in chosen if m is not None]
        cost = cost_of(groups, prices, known)
        least = min(least, cost)
        forced[known] = np.minimum(forced[known], cost)
    return least, forced


def cost_of(groups: PricedGroups, prices: Floats, known: list[int]) -> float:
    pairs = itertools.combinations(groups.role[known].tolist(), 2)
    return sum(float(groups.pair[0, a, b]) for a, b in pairs) - float(prices[known].sum())


@settings(max_examples=300)
@given(priced_groups(roles=2))
def test_a_group_of_two_roles_costs_what_enumeration_says(case: tuple[PricedGroups, Floats]) -> None:
    groups, prices = case
    known = np.zeros(len(prices), np.bool_)
    least, forced = enumerated(groups, prices)
    assert group_cost(groups, 0, prices, workspace_for(groups), known) == pytest.approx(least)
    assert cost_of(groups, prices, np.flatnonzero(known).tolist()) == pytest.approx(least)
    assert member_losses(groups, prices, workspace_for(groups), 1000.0) == pytest.approx(forced - least)


@settings(max_examples=300)
@given(priced_groups(roles=4))
def test_a_group_of_many_roles_costs_no_more_than_enumeration_says(case: tuple[PricedGroups, Floats]) -> None:
    groups, prices = case
    least, forced = enumerated(groups, prices)
    known = np.zeros(len(prices), np.bool_)
    bound = group_cost(groups, 0, prices, workspace_for(groups), known)
    assert bound <= least + 1e-9
    assert (bound + member_losses(groups, prices, workspace_for(groups), 1000.0) <= forced + 1e-9).all()


@over_seeds()
def test_a_role_that_clashes_with_a_cheap_and_a_dear_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    held = [np.flatnonzero(rng.random(3) < 0.6).tolist() or [0] for _ in range(5)]
    role = np.array([r for slot in held for r in slot], np.int64)
    pair = np.zeros((1, 3, 3))
    pair[0, 0, 1:] = pair[0, 1:, 0] = np.sort(rng.uniform(0.1, 2.5, 2))
    slots, bounds = np.cumsum([0, *map(len, held)]), np.array([0, len(held)])
    groups = PricedGroups(np.arange(len(role)), role, slots, bounds, np.array([3]), pair)
    prices = rng.uniform(0.0, 3.0, len(role))
    least, forced = enumerated(groups, prices)
    bound = group_cost(groups, 0, prices, workspace_for(groups), np.zeros(len(prices), np.bool_))
    assert bound <= least + 1e-9
    assert (bound + member_losses(groups, prices, workspace_for(groups), 1000.0) <= forced + 1e-9).all()


def test_boxes_beyond_the_limit_are_bounded_together() -> None:
    # Five roles of fourteen slots each, and all of them pay: the last of more boxes than are looked at one by one.
    roles, size, price = 5, 14, 0.01
    pair = price * (1.0 - np.eye(roles))[None]
    count = roles * size
    groups = PricedGroups(
        np.arange(count),
        np.repeat(np.arange(roles), size),
        np.arange(count + 1),
        np.array([0, count]),
        np.array([roles]),
        pair,
    )
    workspace = workspace_for(groups)
    bound = group_cost(groups, 0, np.ones(count), workspace, np.zeros(count, np.bool_))
    counts = np.stack(np.meshgrid(*[np.arange(size + 1)] * roles), axis=-1).reshape(-1, roles)
    total = counts.sum(axis=1)
    least = (0.5 * price * (total**2 - (counts**2).sum(axis=1)) - total).min()
    assert workspace.tried[0] > MOST_COUNT_BOXES
    assert bound <= least + 1e-9


@pytest.mark.parametrize("price", [1e-4, 1e-3, 1e-2, 1.0])
def test_counts_beyond_the_limit_are_bounded_together(price: float) -> None:
    # 80 slots that only the first role wants and 80 that only the second wants: more than are counted one by one.
    pair = np.array([[[0.0, price], [price, 0.0]]])
    groups = PricedGroups(
        np.arange(160), np.repeat([0, 1], 80), np.arange(161), np.array([0, 160]), np.array([2]), pair
    )
    prices = np.ones(160)
    bound = group_cost(groups, 0, prices, workspace_for(groups), np.zeros(160, np.bool_))
    least = min(price * n * m - n - m for n in range(81) for m in range(81))
    assert least - 12.0 <= bound <= least + 1e-9
    assert (bound + member_losses(groups, prices, workspace_for(groups), 1000.0) <= least + 1e-9).any()


@over_seeds()
def test_sentences_solved_one_by_one_never_lose(seed: int) -> None:
    problem = names_in_sentences(seed, 8)
    spans = candidate_spans(Prepared.of(problem), 20.0)
    state = Prepared.of(problem).empty_state(1000.0)
    labels = viterbi(problem.potentials)
    descent = start_at(chains_of(Prepared.of(problem), spans), state, labels)
    assert descend(descent, UNLIMITED_WORK) == pytest.approx(problem.score(labels).objective)
    finish(descent)
    start = problem.score(viterbi(problem.potentials)).objective
    assert problem.score(labels).objective > start
    assert not state.counts.any()
    assert not state.holders.any()
    settled = labels.copy()
    descend(start_at(chains_of(Prepared.of(problem), spans), state, settled), UNLIMITED_WORK)
    assert settled.tolist() == labels.tolist()


@over_seeds()
def test_a_sentence_solved_again_from_a_cut_on_scores_what_it_scores_from_its_start(seed: int) -> None:
    problem, rng = Prepared.of(names_in_sentences(seed, 8)), np.random.default_rng(seed)
    chains = chains_of(problem, candidate_spans(problem, 20.0))
    resumed = lattice_for(chains)
    token = np.append(chains.start, np.arange(len(problem)))
    charge = np.zeros(len(token))
    for s in range(len(chains.bounds) - 1):
        solve_sentence(chains, s, charge, resumed)
    for _ in range(20):
        changed = rng.random(len(token)) < 0.02
        charge[changed] += rng.exponential(size=changed.sum())
        for s in range(len(chains.bounds) - 1):
            inside = changed & (token >= chains.bounds[s]) & (token < chains.bounds[s + 1])
            first = int(token[inside].min(initial=chains.bounds[s + 1] - 1))
            whole = solve_sentence(chains, s, charge, lattice_for(chains))
            assert solve_rest(chains, s, resumed.cut[first], charge, resumed) == whole
    crossed = {t for start, end in zip(chains.start, chains.end, strict=True) for t in range(start + 1, end)}
    assert crossed
    assert np.flatnonzero(resumed.cut == np.arange(len(problem))).tolist() == sorted(set(range(len(problem))) - crossed)


def test_thirty_mentions_change_their_type_together() -> None:
    # Any few of them alone would disagree with the rest: what a sampler that moves one at a time does not leave.
    sentences, names = 30, LabelSet.bio(["PER", "LOC"])
    unary = np.zeros((2 * sentences, len(names)))
    unary[0::2, names.opening[0]] = 3.0
    unary[0:60:6, names.opening[1]] = 12.0
    starts = np.arange(0, 2 * sentences, 2)
    key = naive_keys([0, 1] * sentences, starts.tolist(), 1)
    cost = 2.0 * (1.0 - np.eye(2))
    potentials = Potentials(unary, np.zeros((len(names), len(names))), starts).legal(names)
    problem = Problem(potentials, names, ("exact",), LinearRows.none(), (SpanAgreement(0, Relation.EXACT, key, cost),))
    incumbent = np.tile(np.array([names.opening[0], 0], np.int32), sentences)
    relaxed = relax(Prepared.of(problem), incumbent, problem.score(incumbent), Effort(UNLIMITED))
    assert relaxed.labels[0::6].tolist() == [names.opening[1]] * 10
    assert relaxed.bound == pytest.approx(problem.score(relaxed.labels).objective, abs=1e-6)
