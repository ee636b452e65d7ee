"""A row exceeded by no more than `SLACK_TOLERANCE` holds, and one exceeded by more does not: for every engine."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from concord.schemas.labels import LabelSet, Scheme
from concord.schemas.potentials import Potentials
from concord.schemas.problem import ANY, SLACK_TOLERANCE, LinearRows, Problem
from concord.testing.engines import check_answer
from concord.testing.problems import enumerate_best
from concord.workers.inference.registry import SOLVERS
from concord.workers.inference.relaxation.row_dual import dual_bound
from tests.support.judged import EXACT, run

ENGINES = tuple(SOLVERS)
LABELS = LabelSet(("O", "x"), Scheme.PLAIN)


def thirds(excess: float, weight: float, others: int = 0) -> Problem:
    """Three tokens that gain 2.5 nats each as x, under Σ x / 3 ≤ 1, which all three together exceed by ``excess``.

    ``others`` rows of one token cost 0.25 nats each, so that none ends at the local optimum.
    """
    n = 3
    unary = np.stack([np.zeros(n), np.full(n, 2.5)], axis=1)
    size = n + others
    rows = LinearRows(
        np.array([0, n, *range(n + 1, size + 1)], np.int64),
        np.array([0, 1, 2, *[0] * others], np.int32),
        np.full(size, ANY, np.int32),
        np.ones(size, np.int32),
        np.array([(1.0 + excess) / 3.0] * n + [1.0] * others),
        np.array([1.0] + [0.0] * others),
        np.array([weight] + [0.25] * others),
        np.arange(1 + others, dtype=np.int32),
    )
    names = tuple(f"c{r}" for r in range(1 + others))
    return Problem(Potentials(unary, np.zeros((2, 2)), np.zeros(1, np.int64)), LABELS, names, rows)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("weight", [np.inf, 1e6, 1e10])
def test_at_the_edge_of_the_tolerance(engine: str, weight: float) -> None:
    for share in (-1.0, 0.3, 0.9, 1.5, 3.0, 30.0):
        check_edge(engine, weight, share)


def check_edge(engine: str, weight: float, share: float) -> None:
    problem = thirds(share * SLACK_TOLERANCE, weight, others=1)
    best = enumerate_best(problem)[1]
    if share < 1.0:
        assert best == pytest.approx(7.25, abs=1e-12)
    decoded = run(engine, problem)
    check_answer(problem, decoded, best)
    if engine in EXACT:
        assert decoded.objective == pytest.approx(best, abs=1e-6)
        assert decoded.bound <= best + 1e-5


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_many_rows_at_the_edge(engine: str, scale: float) -> None:
    """Rows of real coefficients that hold, or not, by less or more than the tolerance for some labelling."""
    rng = np.random.default_rng(5)
    for _ in range(30):
        n, size = 5, 12
        share = rng.choice([-0.5, 0.3, 0.9, 3.0])
        coefficient = rng.uniform(0.0, scale, size)
        position, label = rng.integers(0, n, size).astype(np.int32), rng.integers(0, 2, size).astype(np.int32)
        wanted = rng.integers(0, 2, n).astype(np.int32)
        pointer = np.array([0, 6, size], np.int64)
        held = coefficient * (wanted[position] == label)
        sums = np.array([held[:6].sum(), held[6:].sum()])
        weight = np.array([np.inf, float(rng.choice([1.0, 1e5 / scale, np.inf]))])
        rows = LinearRows(
            pointer,
            position,
            np.full(size, ANY, np.int32),
            label,
            coefficient,
            sums,
            weight,
            np.zeros(2, np.int32),
        )
        rows = replace(rows, bound=sums - share * rows.slack)
        p = Potentials(rng.normal(0.0, 1.0, (n, 2)), rng.normal(0.0, 1.0, (2, 2)), np.zeros(1, np.int64))
        problem = Problem(p, LABELS, ("edge",), rows)
        best = enumerate_best(problem)[1]
        decoded = run(engine, problem)
        if scale == 1.0:
            check_answer(problem, decoded, best)
        # A degree of a million is no sharper than 1e-9, and costs a nat a unit here.
        assert decoded.objective <= best + 1e-7
        assert decoded.bound >= best - 1e-7
        if decoded.certified:
            assert decoded.objective == pytest.approx(best, abs=2e-6)


def test_a_row_holds_in_whatever_order_it_is_summed() -> None:
    """Rows that hold exactly, of a word in a hundred thousand or of a coefficient of a million."""
    rng = np.random.default_rng(0)
    for size, largest in ((100_000, 0.1), (1_000, 1.0), (30, 1e6), (6, 1e6), (200, 12_345.678)):
        coefficient = np.full(size, largest) if size > 10_000 else np.round(rng.uniform(0.5, 1.0, size) * largest, 3)
        bound = float(sum(map(Fraction, coefficient.tolist())))
        for _ in range(5):
            order = rng.permutation(size)
            rows = LinearRows(
                np.array([0, size], np.int64),
                order.astype(np.int32),
                np.full(size, ANY, np.int32),
                np.ones(size, np.int32),
                coefficient[order],
                np.array([bound]),
                np.array([np.inf]),
                np.zeros(1, np.int32),
            )
            assert rows.degree(np.ones(size, np.int32))[0] == 0.0
            assert abs(float(np.cumsum(coefficient[order])[-1]) - bound) < 0.2 * rows.slack[0]
            assert rows.degree(np.ones(size, np.int32) * (np.arange(size) != 0))[0] == 0.0
            tighter = replace(rows, bound=rows.bound - 2.0 * rows.slack)
            assert tighter.degree(np.ones(size, np.int32))[0] > 0.0


def test_whole_numbers_have_the_smallest_slack_however_many() -> None:
    size = 200_000
    rows = LinearRows(
        np.array([0, size], np.int64),
        np.arange(size, dtype=np.int32),
        np.full(size, ANY, np.int32),
        np.ones(size, np.int32),
        np.tile([1.0, -2.5], size // 2),
        np.array([7.0]),
        np.array([1.0]),
        np.zeros(1, np.int32),
    )
    assert rows.summed_exactly.tolist() == [True]
    assert rows.slack.tolist() == [SLACK_TOLERANCE]
    assert replace(rows, coefficient=rows.coefficient * 0.1).slack[0] > 100.0 * SLACK_TOLERANCE
    assert not replace(rows, coefficient=rows.coefficient * 2.0**20).summed_exactly[0]
    assert LinearRows.none().slack.tolist() == []


@pytest.mark.parametrize("weight", [1e8, 1e10])
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_the_dual_does_not_charge_for_what_holds(weight: float, share: float) -> None:
    """Multipliers of a million nats make what the tolerance allows worth more than the bound's rounding."""
    small = thirds(share * SLACK_TOLERANCE, weight)
    p = small.potentials
    problem = replace(small, potentials=Potentials(p.unary * 1e6, p.transition, p.sentence_starts))
    start = np.zeros(3, np.int32)
    dual = dual_bound(problem, np.ones((3, 2), np.bool_), start, steps=1000, tolerance=1e-6)
    assert dual.bound >= enumerate_best(problem)[1]


@pytest.mark.parametrize("engine", EXACT)
def test_what_only_looks_integral(engine: str) -> None:
    """Twelve coefficients that are each 1 but for a tenth of the tolerance: together they exceed it."""
    n = 12
    rows = LinearRows(
        np.array([0, n], np.int64),
        np.arange(n, dtype=np.int32),
        np.full(n, ANY, np.int32),
        np.ones(n, np.int32),
        np.full(n, 1.0 + 0.095 * SLACK_TOLERANCE),
        np.array([float(n)]),
        np.array([np.inf]),
        np.zeros(1, np.int32),
    )
    unary = np.stack([np.zeros(n), np.ones(n)], axis=1)
    problem = Problem(Potentials(unary, np.zeros((2, 2)), np.zeros(1, np.int64)), LABELS, ("twelve",), rows)
    decoded = run(engine, problem)
    assert decoded.certified
    assert decoded.objective == pytest.approx(n - 1.0, abs=1e-6)
