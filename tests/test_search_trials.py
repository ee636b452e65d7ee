"""The search over settings: each is tried once, and what is taken is the best of what was tried."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concord.workers.evaluation.figures import f1_of_counts
from concord.workers.evaluation.named_counts import Counts
from concord.workers.learning.search.trials import SettingsSearch, Trial, best_of

RIGHT = st.lists(st.integers(0, 10), min_size=1, max_size=8)
"""Of ten entities, how many each setting finds."""


def found(right: int) -> Counts:
    """(2, 3) two documents of five entities: the first has as many right as it can."""
    return np.array([[5, 5, min(right, 5)], [5, 5, max(right - 5, 0)]], np.int64)


def searched(right: list[int], *, later_is_better: bool = False) -> tuple[SettingsSearch[int], list[int]]:
    made: list[int] = []

    def attempt(setting: int) -> Counts:
        made.append(setting)
        return found(right[setting])

    return SettingsSearch(attempt, f1_of_counts, preference=float if later_is_better else lambda _: 0.0), made


@given(RIGHT)
def test_each_setting_is_tried_once_and_the_first_of_the_best_is_taken(right: list[int]) -> None:
    search, made = searched(right)
    every = range(len(right))
    assert search.best(every) == search.best(every) == right.index(max(right))
    assert made == list(every) == [trial.setting for trial in search.trials]
    assert best_of(search.trials).setting == right.index(max(right))
    assert [trial.value for trial in search.trials] == pytest.approx([count / 10 for count in right])


@given(RIGHT)
def test_of_equals_the_preferred_one_is_taken(right: list[int]) -> None:
    search, _ = searched(right, later_is_better=True)
    assert search.best(range(len(right))) == max(i for i, count in enumerate(right) if count == max(right))


def test_a_gain_has_an_interval_on_the_same_documents() -> None:
    better, base = Trial("b", found(9), f1_of_counts), Trial("a", found(5), f1_of_counts)
    gain = better.gain(base)
    assert gain.difference == pytest.approx(0.4)
    assert gain.low <= 0.4 <= gain.high
    assert better.gain(base, seed=0) == gain
    assert base.gain(better).difference == pytest.approx(-0.4)


def test_every_trial_is_told_as_it_ends() -> None:
    told: list[Trial[int]] = []
    search = SettingsSearch(found, f1_of_counts, progress=told.append)
    for setting in (3, 4, 4):
        search.trial(setting)
    assert [trial.setting for trial in told] == [3, 4]
