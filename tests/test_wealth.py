"""The promise of a review against its exact chance of being false: all orders of small sets, draws of larger ones."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concord.workers.review.nested import (
    NOT_READ,
    READ_RIGHT,
    READ_SKIPPED,
    READ_WRONG,
    PromiseLimits,
    ReviewPlan,
    ahead,
    least_answers,
    nested_plan,
    promised_level,
    promised_sizes,
    set_sizes,
    standing,
    whole_plan,
)
from concord.workers.review.predicted import LogisticFit, error_of_margin, error_of_marginal
from concord.workers.review.wealth import GRID, least_refused, promised_at, wealth_path

LIMITS = PromiseLimits(0.05, 0.05)


def plain_wealth(wrong: list[bool], size: int, refused: int) -> list[float]:
    """The wealth as the paper says it, in plain loops and without logarithms."""
    rates = [rate * (refused - 1) / size for rate in GRID.tolist()]
    held, path, so_far = [1.0] * len(rates), [], 0
    for t, x in enumerate(wrong):
        chance = (refused - so_far) / (size - t)
        for number, rate in enumerate(rates):
            if 0 < chance < 1 and rate < chance:
                held[number] *= rate / chance if x else (1 - rate) / (1 - chance)
        so_far += x
        certain = refused - so_far > size - t - 1
        path.append(0.0 if so_far >= refused else math.inf if certain else sum(held) / len(held))
    return path


@given(st.data())
@settings(deadline=None)
def test_the_wealth_is_what_plain_loops_come_to(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 40))
    refused = data.draw(st.integers(1, size))
    wrong = data.draw(st.lists(st.booleans(), min_size=0, max_size=size))
    path = wealth_path(np.array(wrong, np.bool_), size, refused)
    np.testing.assert_allclose(np.exp(path), plain_wealth(wrong, size, refused), rtol=1e-9)


@pytest.mark.parametrize("size", [1, 2, 5, 8])
@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_over_all_orders_a_false_promise_is_at_most_as_likely_as_alpha(size: int, alpha: float) -> None:
    for refused in range(1, size + 1):
        for count in range(refused, size + 1):
            false = total = 0
            for places in combinations(range(size), count):
                wrong = np.zeros(size, np.bool_)
                wrong[list(places)] = True
                false += promised_at(wrong, size, refused, alpha) is not None
                total += 1
            assert false <= alpha * total + 1e-6, (refused, count)


@pytest.mark.parametrize("wrong_places", list(combinations(range(6), 2)))
def test_over_all_orders_of_nested_sets_a_false_promise_is_at_most_as_likely_as_alpha(
    wrong_places: tuple[int, ...],
) -> None:
    """Sets of 2, 4 and 6 things, of which one may be wrong in 4 and in 6, tried one after the other."""
    alpha, sizes, refused = 0.4, np.array([2, 4, 6]), np.array([1, 2, 2])
    wrong = np.zeros(6, np.bool_)
    wrong[list(wrong_places)] = True
    bad = {int(s) for s, k in zip(sizes, refused, strict=True) if wrong[:s].sum() >= k}
    false = total = 0
    for order in permutations(range(6)):
        plan = ReviewPlan(np.array(order), np.arange(6), sizes, refused, np.zeros(0, np.int64), alpha)
        levels = 0
        for level in range(3):
            if promised_at(wrong[plan.members(level)], int(sizes[level]), int(refused[level]), alpha) is None:
                break
            levels += 1
        false += any(int(size) in bad for size in sizes[:levels])
        total += 1
    assert false <= alpha * total + 1e-6


def test_answers_that_are_needed_are_those_of_the_divergence() -> None:
    """ln(1/α) / −ln(1 − ε) = 58.4 where none is wrong; betting on several rates costs little more."""
    assert least_answers(LIMITS) == 59
    needed = promised_at(np.zeros(5000, np.bool_), 100_000, least_refused(100_000, 0.05), 0.05)
    assert needed is not None
    assert 59 <= needed <= 75


def test_without_any_error_allowed_all_but_a_share_of_alpha_is_read() -> None:
    """One wrong among N is missed by the first N·(1 − α) with a chance of α, and by no fewer."""
    assert promised_at(np.zeros(40, np.bool_), 40, least_refused(40, 0.0), 0.05) == 38
    assert promised_at(np.array([False] * 37 + [True, False, False]), 40, 1, 0.05) is None


@pytest.mark.parametrize(
    ("size", "error", "refused"), [(100, 0.07, 8), (100, 0.29, 30), (1, 0.05, 1), (20, 0.05, 2), (19, 0.05, 1)]
)
def test_the_least_number_that_is_refused_is_exact(size: int, error: float, refused: int) -> None:
    assert least_refused(size, error) == refused
    assert Fraction(refused - 1, size) <= Fraction(str(error)) < Fraction(refused, size)


def test_a_single_thing_has_to_be_read() -> None:
    plan = nested_plan(np.array([0.5]), LIMITS, np.random.default_rng(0))
    assert plan.sizes.tolist() == [1]
    assert standing(plan, np.array([NOT_READ])) == (0, 0, 1)
    assert standing(plan, np.array([READ_RIGHT])) == (1, None, None)
    assert standing(plan, np.array([READ_WRONG])) == (0, None, None)


def test_nothing_is_promised_of_nothing() -> None:
    plan = nested_plan(np.zeros(0), LIMITS, np.random.default_rng(0))
    assert standing(plan, np.zeros(0, np.int64)) == (0, None, None)


def test_all_right_is_promised_whole_and_all_wrong_never() -> None:
    predicted = np.linspace(0, 0.2, 900)
    plan = nested_plan(predicted, LIMITS, np.random.default_rng(1))
    assert promised_sizes(plan, np.zeros(900, np.bool_), [300, 900])[1] == 900
    assert promised_sizes(plan, np.ones(900, np.bool_), [300, 900]) == [0, 0]


def step_by_step(plan: ReviewPlan, wrong: np.ndarray, budget: int) -> int:
    verdicts = np.full(len(wrong), NOT_READ)
    now = standing(plan, verdicts)
    for _ in range(budget):
        if now.place is None:
            break
        verdicts[now.place] = READ_WRONG if wrong[now.place] else READ_RIGHT
        now = standing(plan, verdicts, now.levels)
    top = promised_level(plan, verdicts, now.levels)
    return int(plan.sizes[top - 1]) if top else 0


@given(st.integers(0, 10_000), st.integers(1, 260), st.sampled_from([0.0, 0.01, 0.05, 0.3]), st.integers(0, 260))
@settings(deadline=None, max_examples=25)
def test_trials_come_to_what_a_review_comes_to(seed: int, total: int, rate: float, budget: int) -> None:
    rng = np.random.default_rng(seed)
    predicted = np.round(rng.beta(0.5, 4, total), 1)  # with ties
    wrong = rng.random(total) < rate
    for plan in (
        nested_plan(predicted, PromiseLimits(0.1, 0.1), rng),
        whole_plan(predicted, PromiseLimits(0.1, 0.1), 0.25, rng),
    ):
        assert promised_sizes(plan, wrong, [budget])[0] == step_by_step(plan, wrong, budget)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("rate", [0.0, 0.125, 0.25])
def test_what_is_handed_out_ahead_is_what_would_be_asked_one_by_one(rate: float, *, whole: bool) -> None:
    rng = np.random.default_rng(1)
    predicted = np.full(300, rate)
    limits = PromiseLimits(0.2, 0.05)
    plan = whole_plan(predicted, limits, 0.25, rng) if whole else nested_plan(predicted, limits, rng)
    verdicts = np.full(300, NOT_READ)
    verdicts[rng.permutation(300)[:20]] = READ_RIGHT
    unread = np.flatnonzero(verdicts == NOT_READ)
    places = ahead(plan, verdicts, predicted, 300)
    assert sorted(places) == unread.tolist()
    assert places[:40] == ahead(plan, verdicts, predicted, 40)
    wrong_so_far = 0
    for number, place in enumerate(places, 1):
        now = standing(plan, verdicts)
        if now.place is None:
            break
        assert place == now.place
        wrong = math.floor(0.5 + rate * number) > wrong_so_far
        wrong_so_far += wrong
        verdicts[place] = READ_WRONG if wrong else READ_RIGHT
    assert number > 10


def test_answers_that_come_by_the_hundred_promise_nearly_as_much_as_one_by_one() -> None:
    rng = np.random.default_rng(4)
    predicted = rng.beta(0.3, 6.0, 2000)
    wrong = rng.random(2000) < predicted
    plan = nested_plan(predicted, LIMITS, rng)
    promised = []
    for step in (1, 100):
        verdicts = np.full(2000, NOT_READ)
        for _ in range(300 // step):
            places = ahead(plan, verdicts, predicted, step)
            verdicts[places] = np.where(wrong[places], READ_WRONG, READ_RIGHT)
        level = promised_level(plan, verdicts, standing(plan, verdicts).levels)
        promised.append(int(plan.sizes[level - 1]) if level else 0)
    one_by_one, by_the_hundred = promised
    assert one_by_one >= by_the_hundred > 0.8 * one_by_one > 0


def test_the_sets_are_nested_and_end_with_everything() -> None:
    rng = np.random.default_rng(0)
    predicted = rng.beta(0.3, 4, 3000)
    plan = nested_plan(predicted, LIMITS, rng)
    assert plan.sizes[-1] == 3000
    assert np.all(np.diff(plan.sizes) > 0)
    for smaller, larger in ((0, 1), (len(plan.sizes) - 2, len(plan.sizes) - 1)):
        assert set(plan.members(smaller)) < set(plan.members(larger))
    first = predicted[plan.members(0)]
    assert first.max() <= 0.01
    assert len(first) <= 0.3 * 3000
    assert first.max() <= np.delete(predicted, plan.members(0)).min()


def test_sets_begin_large_enough_to_be_promised_by_reading_a_part() -> None:
    assert set_sizes(np.full(1000, 0.5), LIMITS, 0.3)[0] == 2 * 59


def test_what_is_skipped_counts_as_wrong() -> None:
    plan = nested_plan(np.zeros(400), LIMITS, np.random.default_rng(0))
    skipped = np.full(400, READ_SKIPPED)
    assert standing(plan, skipped) == (0, None, None)


def test_as_many_answers_as_are_said_are_needed_where_all_are_right() -> None:
    plan = nested_plan(np.linspace(0, 1, 700), LIMITS, np.random.default_rng(3))
    verdicts = np.full(700, NOT_READ)
    verdicts[standing(plan, verdicts).place] = READ_WRONG
    now, answers = standing(plan, verdicts), 0
    promised = now.more
    while now.levels == 0:
        verdicts[now.place] = READ_RIGHT
        answers, now = answers + 1, standing(plan, verdicts)
    assert answers == promised


def test_of_a_whole_run_the_least_sure_quarter_is_read_first() -> None:
    predicted = np.linspace(0, 1, 1000)
    plan = whole_plan(predicted, LIMITS, 0.25, np.random.default_rng(0))
    assert plan.first.tolist() == list(range(999, 749, -1))
    assert (plan.sizes.tolist(), plan.refused.tolist()) == ([750], [51])
    verdicts = np.full(1000, NOT_READ)
    verdicts[plan.first] = READ_WRONG
    now = standing(plan, verdicts)
    assert now.place is not None
    assert predicted[now.place] < 0.75
    assert standing(plan, np.full(1000, NOT_READ)).more == 250 + (now.more or 0)


def test_a_promise_that_later_answers_disprove_is_taken_back() -> None:
    plan = nested_plan(np.linspace(0, 1, 300), LIMITS, np.random.default_rng(0))
    verdicts = np.full(300, READ_RIGHT)
    assert promised_level(plan, verdicts, 3) == 3
    verdicts[plan.members(0)[: plan.refused[2]]] = READ_WRONG
    assert promised_level(plan, verdicts, 3) == 0


@pytest.mark.parametrize("clustered", [False, True])
def test_draws_of_a_large_run_are_false_as_seldom_as_promised(*, clustered: bool) -> None:
    """Errors just above the limit, in a run whose predicted errors are all equal, alone or by whole documents."""
    rng = np.random.default_rng(5)
    wrong = np.zeros(600, np.bool_)
    wrong[:31] = True
    if not clustered:
        wrong = rng.permutation(wrong)
    false = 0
    for seed in range(200):
        plan = nested_plan(np.zeros(600), LIMITS, np.random.default_rng(seed))
        false += promised_sizes(plan, wrong, [400])[0] == 600
    assert false <= 200 * 0.05 + 3 * math.sqrt(200 * 0.05 * 0.95)


def test_a_logistic_fit_finds_the_coefficients_that_made_the_errors() -> None:
    rng = np.random.default_rng(0)
    predicted = rng.beta(0.5, 3, 40_000)
    odds = np.log(predicted) - np.log1p(-predicted)
    wrong = rng.random(40_000) < 1 / (1 + np.exp(-(-0.5 + 0.7 * odds)))
    fit = LogisticFit.of(predicted, wrong)
    assert fit.intercept == pytest.approx(-0.5, abs=0.05)
    assert fit.slope == pytest.approx(0.7, abs=0.03)
    assert fit.error(predicted).mean() == pytest.approx(wrong.mean(), abs=1e-3)


def test_a_fit_to_answers_that_are_all_right_is_finite() -> None:
    fit = LogisticFit.of(np.array([0.0, 0.1, 1.0]), np.zeros(3, np.bool_))
    assert np.isfinite(fit).all()
    with pytest.raises(ValueError, match="no answers"):
        LogisticFit.of(np.zeros(0), np.zeros(0, np.bool_))


def test_less_sure_answers_are_predicted_to_be_wrong_more_often() -> None:
    assert error_of_marginal(np.array([0.9, 1.0])).tolist() == pytest.approx([0.1, 0.0])
    np.testing.assert_allclose(error_of_margin(np.array([0.0, np.log(3), 1000.0])), [0.5, 0.25, 0.0], atol=1e-12)
