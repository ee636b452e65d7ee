"""The control chart of nights: exact p-values, false alarms as rare as promised, and changes that it finds."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concord.workers.drift.chart import (
    BREACH_LEVEL,
    FALSE_ALARMS,
    NIGHTS,
    NightScore,
    effect,
    p_value,
    paired_rise,
    rise,
)
from concord.workers.evaluation.bootstrap import holm


def p_of(score: NightScore) -> float:
    return p_value(score, [])


def is_valid(p_values: list[float]) -> bool:
    """Of equally likely outcomes, are there at most a share of p with p-values of at most p?"""
    ordered = np.sort(p_values)
    shares = np.searchsorted(ordered, ordered, side="right") / len(ordered)
    return bool((shares <= ordered + 1e-9).all())


@given(st.lists(st.integers(0, 3), min_size=3, max_size=9), st.data())
def test_the_p_value_of_new_documents_is_exact_over_all_ways_to_choose_them(
    values: list[int], data: st.DataObject
) -> None:
    every, new = np.array(values, float), data.draw(st.integers(1, len(values) - 1))
    found = []
    for chosen in combinations(range(len(values)), new):
        mask = np.isin(np.arange(len(values)), chosen)
        found.append(p_of(rise(every[mask], every[~mask])))
    assert is_valid(found)


@given(st.lists(st.floats(-2, 2), min_size=1, max_size=6))
def test_the_p_value_of_other_answers_is_exact_over_all_signs(moves: list[float]) -> None:
    before = np.zeros(len(moves))
    found = [p_of(paired_rise(before, np.array(moves) * signs)) for signs in product((-1.0, 1.0), repeat=len(moves))]
    assert is_valid(found)


def test_a_rare_event_is_judged_by_the_exact_law() -> None:
    """Three of ten documents have what one of a hundred has: the normal law would say 10⁻²⁰."""
    others = np.repeat([0.0, 1.0], [9_900, 100])
    assert 1e-5 < p_of(rise(np.repeat([0.0, 1.0], [7, 3]), others)) < 1e-3


def test_the_score_has_the_sign_of_the_change() -> None:
    low, high = np.zeros(40), np.ones(40)
    assert rise(high, low).z > 8 > -8 > rise(low, high).z
    assert paired_rise(low, high).z > 6 > -6 > paired_rise(high, low).z
    assert rise(low, low) == NightScore(0.0, 20.0)
    assert effect(low, high) == 2.0


def test_false_alarms_of_exchangeable_documents_are_as_rare_as_promised() -> None:
    """Skewed figures with many zeros, in 600 nights of 30 documents."""
    rng = np.random.default_rng(1)
    others = rng.lognormal(size=2_000) * (rng.random(2_000) < 0.1)
    earlier: list[NightScore] = []
    found = []
    for _ in range(600):
        score = rise(rng.lognormal(size=30) * (rng.random(30) < 0.1), others)
        found.append(p_value(score, earlier))
        earlier.append(score)
    for level in (0.2, 0.05, 0.01):
        sure = level + 4 * np.sqrt(level * (1 - level) / len(found))
        assert np.mean(np.array(found) <= level) <= sure


@pytest.mark.parametrize("excess", [0.0, 1.0, 25.0])
def test_false_alarms_of_nights_that_differ_stay_rare_once_some_are_known(excess: float) -> None:
    """The score's variance is 1 + excess; without what earlier nights say, nearly all would be alarms at 25."""
    rng = np.random.default_rng(2)
    scores = [NightScore(float(z), 30.0) for z in rng.normal(scale=np.sqrt(1 + excess), size=1_500)]
    found = np.array([p_value(score, scores[:i]) for i, score in enumerate(scores)][20:])
    for level, most in ((0.05, 1.4), (0.01, 2.0), (0.001, 5.0)):
        assert (found <= level).mean() <= most * level
    assert excess < 25 or np.mean([p_of(score) <= 0.05 for score in scores]) > 0.5


def test_a_year_of_figures_gives_an_alarm_as_rarely_as_promised_and_a_change_is_found() -> None:
    """A hundred years of twenty figures a night, whose p-values are uniform, as those above are at most."""
    assert pytest.approx(FALSE_ALARMS) == BREACH_LEVEL * NIGHTS
    rng = np.random.default_rng(3)
    least = [holm(rng.random(20)).min() for _ in range(100 * NIGHTS // 20)]
    assert np.mean(np.array(least) <= 20 * BREACH_LEVEL) <= 2 * 20 * BREACH_LEVEL
    usual = [NightScore(float(z), 30.0) for z in rng.normal(scale=1.5, size=60)]
    known = rng.beta(2, 98, size=5_000)
    changed = rise(rng.beta(12, 88, size=30), known)
    unchanged = rise(rng.beta(2, 98, size=30), known)
    assert 20 * p_value(changed, usual) <= BREACH_LEVEL < 20 * p_value(unchanged, usual)
