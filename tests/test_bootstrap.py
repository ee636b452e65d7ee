"""The paired bootstrap against a plain loop, and its behaviour where the answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from concord.schemas.gains import Comparison
from concord.workers.evaluation import bootstrap
from concord.workers.evaluation.bootstrap import bootstrap_interval, holm, paired_bootstrap, paired_bootstraps
from concord.workers.evaluation.figures import FIGURES, f1, f1_of_counts
from concord.workers.evaluation.runs import RunCounts, drawn_means


def some_counts(documents: int, hit_rate: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    gold = rng.integers(1, 12, documents)
    return np.stack([gold, gold, rng.binomial(gold, hit_rate)], axis=1)


def test_f1_of_counts_by_hand() -> None:
    counts = np.array([[4, 4, 2], [0, 0, 0], [3, 1, 1], [0, 5, 0]])
    assert f1_of_counts(counts).tolist() == [0.5, 0.0, 0.5, 0.0]


@pytest.mark.parametrize("values", [[], [0.2], [0.01, 0.04, 0.03, 0.2], [0.5, 0.5, 0.001], [1.0, 0.9]])
def test_holm_is_the_step_down_of_its_definition(values: list[float]) -> None:
    order, worst, wanted = sorted(range(len(values)), key=values.__getitem__), 0.0, [0.0] * len(values)
    for step, i in enumerate(order):
        worst = max(worst, min(1.0, values[i] * (len(values) - step)))
        wanted[i] = worst
    assert holm(np.array(values, np.float64)).tolist() == pytest.approx(wanted)


def test_equals_a_plain_loop_over_draws() -> None:
    base, other = some_counts(17, 0.7, 1), some_counts(17, 0.8, 2)
    got = paired_bootstrap(base, other, rng=np.random.default_rng(5), draws=200, confidence=0.9)
    rng = np.random.default_rng(5)
    differences = []
    for _ in range(200):
        times = rng.multinomial(17, np.full(17, 1 / 17))
        figures = []
        for counts in (base, other):
            gold, predicted, correct = (
                sum(int(t * c[k]) for t, c in zip(times, counts, strict=True)) for k in range(3)
            )
            precision, recall = correct / predicted, correct / gold
            figures.append(2 * precision * recall / (precision + recall))
        differences.append(figures[1] - figures[0])
    observed = f1_of_counts(other.sum(0)) - f1_of_counts(base.sum(0))
    far = sum(abs(d - observed) >= abs(observed) for d in differences)
    assert got.difference == pytest.approx(observed)
    assert (got.low, got.high) == pytest.approx(tuple(np.quantile(differences, (0.05, 0.95))))
    assert got.p_value == pytest.approx((1 + far) / 201)


def test_a_labelling_does_not_differ_from_itself() -> None:
    counts = some_counts(30, 0.6, 3)
    found = paired_bootstrap(counts, counts, rng=np.random.default_rng(0))
    assert found == Comparison(difference=0.0, low=0.0, high=0.0, p_value=1.0)


def test_sides_swap() -> None:
    base, other = some_counts(40, 0.7, 4), some_counts(40, 0.72, 5)
    one = paired_bootstrap(base, other, rng=np.random.default_rng(1))
    two = paired_bootstrap(other, base, rng=np.random.default_rng(1))
    assert (two.difference, two.low, two.high) == pytest.approx((-one.difference, -one.high, -one.low))
    assert two.p_value == one.p_value


def test_a_clear_difference_is_significant_and_a_tiny_one_is_not() -> None:
    base = some_counts(200, 0.7, 6)
    better = base.copy()
    better[:, 2] = np.minimum(base[:, 0], base[:, 2] + 1)
    clear = paired_bootstrap(base, better, rng=np.random.default_rng(2))
    assert clear.low > 0
    assert clear.p_value == pytest.approx(1 / 1001)
    # One document better and two worse by one entity: nothing can be said.
    mixed = base.copy()
    mixed[:3, 2] = np.clip(base[:3, 2] + np.array([2, -1, 0]), 0, base[:3, 0])
    unclear = paired_bootstrap(base, mixed, rng=np.random.default_rng(2))
    assert unclear.low <= 0 <= unclear.high
    assert unclear.p_value > 0.05


def test_chunks_do_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    base, other = some_counts(25, 0.7, 7), some_counts(25, 0.75, 8)
    whole = paired_bootstrap(base, other, rng=np.random.default_rng(3), draws=101)
    monkeypatch.setattr(bootstrap, "_CELLS_AT_ONCE", 25 * 10)
    assert paired_bootstrap(base, other, rng=np.random.default_rng(3), draws=101) == whole


def test_bad_input_is_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"the same \(D, \.\.\., 3\)"):
        paired_bootstrap(np.zeros((2, 3), int), np.zeros((3, 3), int), rng=rng)
    with pytest.raises(ValueError, match="needs documents and draws"):
        paired_bootstrap(np.zeros((0, 3), int), np.zeros((0, 3), int), rng=rng)


def test_figures_of_one_bootstrap_are_those_of_bootstraps_of_their_own() -> None:
    rng = np.random.default_rng(9)
    base, other = (np.sort(rng.integers(0, 5, (20, 4, 3)), axis=2)[:, :, ::-1] for _ in range(2))
    together = paired_bootstraps(base, other, FIGURES, rng=np.random.default_rng(4), draws=50)
    for name, figure in FIGURES.items():
        alone = paired_bootstraps(base, other, {name: figure}, rng=np.random.default_rng(4), draws=50)
        assert together[name] == alone[name]
    names_joined = paired_bootstrap(base.sum(1), other.sum(1), rng=np.random.default_rng(4), draws=50)
    assert names_joined == together["f1"]


def test_a_macro_figure_draws_its_names_too() -> None:
    """One name is in the first document alone: draws without that document have a mean over the other name."""
    base = np.array([[[4, 4, 4], [1, 1, 0]], [[4, 4, 4], [0, 0, 0]]])
    other = np.array([[[4, 4, 4], [1, 1, 1]], [[4, 4, 4], [0, 0, 0]]])
    draws = np.random.default_rng(3).multinomial(2, [0.5, 0.5], 200)
    wanted = np.where(draws[:, 0] > 0, 0.5, 0.0)
    figures = {"macro_f1": FIGURES["macro_f1"]}
    found = paired_bootstraps(base, other, figures, rng=np.random.default_rng(3), draws=200)["macro_f1"]
    assert found.difference == 0.5
    assert (found.low, found.high) == tuple(np.quantile(wanted, (0.025, 0.975)))


def test_means_over_runs_draw_documents_and_training_draws() -> None:
    """Against plain loops over the same draws, for runs whose number differs between training draws."""
    rng = np.random.default_rng(6)
    counts = rng.integers(1, 9, (7, 5, 2, 3)).cumsum(axis=-1)[..., ::-1]
    runs = RunCounts(counts, (0, 1, 1, 4, 4))
    (mean,) = drawn_means([runs], f1, rng=np.random.default_rng(2), draws=40)
    again = np.random.default_rng(2)
    documents = again.multinomial(7, np.full(7, 1.0 / 7), 40)
    training = again.multinomial(3, np.full(3, 1.0 / 3), 40)
    values = f1(counts.sum(axis=0))
    assert mean.value == pytest.approx((values[0] + values[1:3].mean() + values[3:].mean()) / 3)
    for draw in range(40):
        own = f1(np.tensordot(documents[draw], counts, axes=1))
        wanted = training[draw] @ [own[0], own[1:3].mean(), own[3:].mean()] / 3
        assert mean.drawn[draw] == pytest.approx(wanted)
    low, high = np.quantile(mean.drawn, (0.025, 0.975))
    assert mean.interval() == pytest.approx((mean.value, low, high))


def test_single_runs_compare_as_their_counts_do() -> None:
    one, other = (np.random.default_rng(seed).integers(1, 9, (9, 2, 3)).cumsum(axis=-1)[..., ::-1] for seed in (0, 1))
    base, mine = drawn_means(
        [RunCounts(counts[:, None], (None,)) for counts in (one, other)],
        f1,
        rng=np.random.default_rng(3),
        draws=60,
    )
    wanted = paired_bootstraps(one, other, {"f1": f1}, rng=np.random.default_rng(3), draws=60)["f1"]
    assert mine.minus(base) == pytest.approx(wanted)
    assert base.interval() == pytest.approx(bootstrap_interval(one, f1, rng=np.random.default_rng(3), draws=60))


def test_settings_of_the_same_training_draws_share_them() -> None:
    """All documents are alike and every setting is as good, so that a difference of draws alone would show."""
    counts = np.tile(np.array([[[[4, 4, 1]], [[4, 4, 3]]]]), (6, 1, 1, 1))
    settings = [
        RunCounts(counts, (0, 1)),
        RunCounts(counts, (0, 1)),
        RunCounts(counts, (0, 0)),
        RunCounts(counts[:, :1], (None,)),
    ]
    one, other, alone, few = drawn_means(settings, f1, rng=np.random.default_rng(0), draws=50)
    assert (one.minus(other).low, one.minus(other).high) == (0.0, 0.0)
    assert one.interval().low < one.interval().high
    assert alone.interval().low == alone.interval().high == one.value
    assert few.value == 0.25
