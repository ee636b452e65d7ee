"""Wrapped progressive sampling: sizes, survivors and ties against plain counts, and a trial against a trained model."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concord.schemas.document import Batch, Document
from concord.schemas.errors import TrainingError
from concord.workers.inference.core.engine import document_rng
from concord.workers.learning.search.folds import fold_of
from concord.workers.learning.search.progressive import (
    LEAST_SAMPLE,
    SampleRound,
    TrialTally,
    asked_of,
    rounds,
    sizes_of,
    survivors,
)
from concord.workers.papers.canisius import trigram_trainer as trigram
from concord.workers.papers.canisius.settings import Decay, Metric, TrigramSettings, TrigramWindow, Weighting
from concord.workers.papers.canisius.trigram_trials import (
    SAMPLE_FOLDS,
    SEARCHED,
    Sample,
    chosen_of,
    grid,
    together,
    tried,
)
from tests.support.made_samples import DOCUMENTS, plain

needs_timbl = pytest.mark.skipif(
    find_spec("timblapi") is None, reason="the extra memory is not installed: python3-timbl"
)
TIMBLS = ("igtree", "tribl2", "ib1")

counts = st.lists(st.integers(0, 200), min_size=1, max_size=40)


def plainly(right: Sequence[int]) -> list[int]:
    """Bins by exact fractions, and one after another looked at."""
    low, high = min(right), max(right)
    if low == high:
        return list(range(len(right)))
    members: list[list[int]] = [[] for _ in range(10)]
    for place, count in enumerate(right):
        share = Fraction(count - low, high - low)
        (mine,) = [b for b in range(10) if Fraction(b, 10) <= share < Fraction(b + 1, 10)] or [9]
        members[mine].append(place)
    stay = list(members[9])
    for upper, lower in zip(members[:0:-1], members[-2::-1], strict=True):
        if len(lower) < len(upper):
            break
        stay += lower
    return sorted(stay)


@given(counts)
def test_who_stays_is_what_plain_bins_say(right: list[int]) -> None:
    stay = survivors(right)
    assert stay == plainly(right)
    assert right.index(max(right)) in stay


def test_who_stays_by_hand() -> None:
    # The highest bin has one, the next none.
    assert survivors([0, 10, 7]) == [1]
    # One, two, and one again.
    assert survivors([0, 100, 85, 88, 75]) == [1, 2, 3]
    # One in each of three, and none in the fourth.
    assert survivors([0, 100, 85, 75, 51]) == [1, 2, 3]
    assert survivors([7, 7, 7]) == [0, 1, 2]


@given(st.integers(1, 10**6), st.integers(LEAST_SAMPLE, 10**6))
def test_sizes_rise_from_five_hundred_to_all_there_is(instances: int, largest: int) -> None:
    every = sizes_of(instances)
    assert every[0] == min(LEAST_SAMPLE, instances)
    assert every[-1] == instances
    assert sorted(set(every)) == every
    for size in every[1:-1]:
        assert any(abs(size - instances ** (i / 20)) <= 0.5 for i in range(1, 20))
    assert sizes_of(instances, largest) == [size for size in every if size <= largest]


def test_the_sizes_of_a_corpus() -> None:
    assert sizes_of(150_557)[:4] == [500, 704, 1278, 2320]
    assert sizes_of(499) == [499]
    assert [asked_of(size, 300) for size in (1, 500, 10_000)] == [1, 100, 300]


@given(st.integers(1, 60), st.integers(1, 8), st.randoms(use_true_random=False))
def test_rounds_are_what_a_plain_loop_does(settings: int, count: int, chance: Any) -> None:
    sizes = [500 + i for i in range(count)]
    table = {(size, i): chance.randint(0, 12) for size in sizes for i in range(settings)}
    asked: list[tuple[int, list[int]]] = []

    def attempt(size: int, numbers: Sequence[int]) -> Mapping[int, TrialTally]:
        asked.append((size, list(numbers)))
        return {i: TrialTally(table[size, i], 12) for i in numbers}

    found = list(rounds(settings, sizes, attempt))
    left = list(range(settings))
    for made, (size, numbers) in zip(found, asked, strict=True):
        assert numbers == sorted({0, *left})
        left = [left[i] for i in plainly([table[size, i] for i in left])]
        assert (made.size, list(made.left)) == (size, left)
    assert len(left) == 1 or len(found) == count
    best = max(table[found[-1].size, i] for i in left)
    assert found[-1].best == min(i for i in left if table[found[-1].size, i] == best)


def test_ties_go_to_the_default() -> None:
    made = SampleRound(500, {0: TrialTally(5, 9), 1: TrialTally(5, 9), 2: TrialTally(5, 9)}, [2, 1, 0])
    assert made.best == 0
    assert made._replace(left=[2, 1]).best == 1


def test_tallies_add_up() -> None:
    parts = [TrialTally(1, 2, 0.5), TrialTally(3, 4, 0.25)]
    assert TrialTally.merge(parts) == TrialTally(4, 6, 0.75)
    assert TrialTally.merge([]) == TrialTally(0, 0, 0.0)
    assert TrialTally(1, 4).accuracy == 0.25


# The grid


def test_the_grid_has_the_default_first_and_nothing_twice() -> None:
    every = grid(TrigramSettings())
    assert every[0] == TrigramSettings()
    ks = SEARCHED["k"]
    assert len(every) == len(Metric) * len(Weighting) * (1 + (len(ks) - 1) * len(Decay))
    assert len({tuple(chosen_of(one).values()) for one in every}) == len(every)
    assert all(one.decay == Decay.NONE for one in every if one.k == 1)


def test_what_is_given_stays() -> None:
    settings = TrigramSettings(k=4, metric=Metric.MVDM, windows=TrigramWindow.CHUNKS, n=2)
    every = grid(settings)
    assert every[0] == settings
    assert {(one.k, one.metric, one.windows, one.n) for one in every} == {(4, Metric.MVDM, TrigramWindow.CHUNKS, 2)}
    assert len(every) == len(Weighting) * len(Decay)
    assert grid(TrigramSettings(decay=Decay.LINEAR))[0].decay == Decay.LINEAR
    assert len(grid(TrigramSettings(learner="igtree"))) == len(Weighting)
    with pytest.raises(TrainingError, match="nothing is left to be chosen: give fewer options; chosen are k, metric"):
        grid(TrigramSettings(k=1, metric=Metric.OVERLAP, weighting=Weighting.NONE))
    with pytest.raises(TrainingError, match="nothing is left"):
        grid(TrigramSettings(learner="igtree", weighting=Weighting.NONE))


# A trial


def halves(documents: Sequence[Document]) -> tuple[list[Document], list[Document]]:
    folds = fold_of(documents, SAMPLE_FOLDS)
    inside, outside = ([d for d, f in zip(documents, folds, strict=True) if (f == 0) is out] for out in (False, True))
    return inside, outside


@pytest.mark.parametrize("windows", list(TrigramWindow))
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"k": 3, "metric": "mvdm", "decay": "inverse"},
        {"k": 5, "metric": "jeffrey", "decay": "linear", "weighting": "none"},
        *(pytest.param({"learner": name, "k": 3}, marks=needs_timbl) for name in TIMBLS),
    ],
    ids=["overlap", "mvdm", "jeffrey", *TIMBLS],
)
def test_a_trial_on_all_tokens_is_the_model_of_the_others(
    windows: TrigramWindow, given: dict[str, Any], tmp_path: Path
) -> None:
    settings = TrigramSettings.model_validate({"windows": windows, **given})
    sample = Sample.of(DOCUMENTS, settings)
    inside, outside = halves(DOCUMENTS)
    model = trigram.train(inside, settings=settings, out=tmp_path / "m")
    batch = Batch.of(outside)
    assert batch.labels is not None
    wanted = trigram.labels_around(model.labels.encode(batch.labels.strings()), batch.sentence_bounds, 3)
    right = (model.classes[model.neighbourhoods(batch).predicted] == wanted).all(axis=1)
    assert sample.tokens == sum(map(len, inside))
    # All of the tokens to remember, and the first by chance of the others.
    tested = asked_of(sample.tokens, len(sample.asked))
    drawn = trigram_order(batch)[:tested]
    assert plain(sample, settings, sample.tokens) == (int(right[drawn].sum()), tested)


def trigram_order(batch: Batch) -> list[int]:
    drawn = [
        (value, start + t)
        for name, start, end in zip(batch.doc_ids, batch.doc_starts, batch.doc_starts[1:], strict=False)
        for t, value in enumerate(document_rng(0, name).random(int(end - start)).tolist())
    ]
    return [int(place) for _, place in sorted(drawn)]


def test_a_trial_knows_nothing_but_its_sample() -> None:
    settings = TrigramSettings(metric=Metric.MVDM, k=3)
    sample = Sample.of(DOCUMENTS, settings)
    few = Sample(sample.values[:, :40], sample.around[:40], sample.asked[:8], sample.wanted[:8])
    wanted = plain(sample, settings, 40)
    assert plain(few, settings, 40) == wanted
    assert plain(pickle.loads(pickle.dumps(sample)), settings, 40) == wanted


def test_a_group_comes_to_what_each_of_it_does() -> None:
    sample = Sample.of(DOCUMENTS, TrigramSettings())
    every = grid(TrigramSettings())
    groups = together(every)
    assert sorted(one.model_dump_json() for group in groups for one in group) == sorted(
        one.model_dump_json() for one in every
    )
    assert len(groups) == len(Metric) * len(Weighting)
    for group in groups:
        for size in (3, 60):
            assert [tally[:2] for tally in tried(sample, group, size)] == [plain(sample, one, size) for one in group]


def test_learners_of_timbl_share_no_distances() -> None:
    every = grid(TrigramSettings(learner="ib1"))
    assert together(every) == [[one] for one in every]


@needs_timbl
def test_a_trial_of_ib1_is_one_of_our_own_neighbours() -> None:
    settings = TrigramSettings(k=3)
    sample = Sample.of(DOCUMENTS, settings)
    for size in (40, sample.tokens):
        theirs = plain(sample, settings.model_copy(update={"learner": "ib1"}), size)
        assert theirs == plain(sample, settings, size)
        assert theirs[0] > 0


def test_the_order_of_documents_does_not_matter() -> None:
    settings = TrigramSettings(windows=TrigramWindow.NAMES, k=3)
    sample, turned = Sample.of(DOCUMENTS, settings), Sample.of(DOCUMENTS[::-1], settings)
    for one, other in zip(sample, turned, strict=True):
        np.testing.assert_array_equal(one, other)


def test_too_few_documents_are_an_error() -> None:
    with pytest.raises(TrainingError, match="4 documents are too few"):
        Sample.of(DOCUMENTS[:4], TrigramSettings())
    with pytest.raises(TrainingError, match="too few documents have tokens"):
        Sample.of([Document.build(f"e{i}", [], labels=[]) for i in range(9)], TrigramSettings())
