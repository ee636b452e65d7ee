"""What hangs together: every cost that a labelling within D can have lies inside a component."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.labels import LabelSet, Scheme
from schemas.potentials import Potentials
from schemas.problem import ANY, LinearRows, Problem
from tests.oracle import LABEL_SETS, all_labellings, local_scores, random_problem
from workers.inference.certify.components import Pruned, part_of


@settings(max_examples=120)
@given(st.integers(0, 10**9))
def test_components_hold_all_that_labellings_within_the_loss_pay(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = LABEL_SETS[seed % 4]
    problem = random_problem(rng, labels=labels, tokens={2: 6, 3: 4, 5: 3}[len(labels)])
    labellings = all_labellings(len(problem), len(labels))
    local = local_scores(problem.potentials, labellings)
    losses = local.max() - local
    most_loss = float(rng.choice(losses[np.isfinite(losses)])) + 1e-9
    by_sentence = np.full(len(problem.potentials.sentence_starts), most_loss)
    pruned = Pruned.of(problem, most_loss)
    parts = [part_of(problem, component, pruned.sentence) for component in pruned.components(by_sentence)]
    for y in labellings[losses <= most_loss - 1e-9]:
        apart = sum(part.score(y[tokens]).penalty for part, tokens in parts)
        assert problem.score(y).penalty == pytest.approx(apart, abs=1e-8), y
        assert pruned.allowed(by_sentence)[np.arange(len(y)), y].all()
    if problem.agreements:
        alive = pruned.alive_spans(by_sentence)
        kept = set(zip(alive.start.tolist(), alive.end.tolist(), alive.type.tolist(), strict=True))
        for y in labellings[losses <= most_loss - 1e-9]:
            spans = labels.spans(y, problem.potentials.sentence_starts)
            assert set(zip(spans.start.tolist(), spans.end.tolist(), spans.type.tolist(), strict=True)) <= kept


@pytest.mark.parametrize(("bound", "together"), [(1.5, True), (2.0, False), (2.5, False)])
def test_a_row_that_can_only_just_be_met_holds_nothing_together(bound: float, together: bool) -> None:
    labels = LabelSet(("O", "x"), Scheme.PLAIN)
    rows = LinearRows(
        np.array([0, 2], np.int64),
        np.array([0, 1], np.int32),
        np.full(2, ANY, np.int32),
        np.ones(2, np.int32),
        np.ones(2),
        np.array([bound]),
        np.ones(1),
        np.zeros(1, np.int32),
    )
    potentials = Potentials(np.zeros((2, 2)), np.zeros((2, 2)), np.array([0, 1], np.int64))
    pruned = Pruned.of(Problem(potentials, labels, ("row",), rows), 1.0)
    assert len(pruned.components(np.ones(2))) == together


def test_a_pair_of_labels_that_a_row_counts_can_break_it() -> None:
    labels = LabelSet(("O", "x"), Scheme.PLAIN)
    ints, floats = np.ones(1, np.int32), np.ones(1)
    rows = LinearRows(np.array([0, 1], np.int64), ints, ints, ints, floats, 0.5 * floats, floats, 0 * ints)
    potentials = Potentials(np.zeros((2, 2)), np.zeros((2, 2)), np.array([0], np.int64))
    pruned = Pruned.of(Problem(potentials, labels, ("row",), rows), 1.0)
    assert len(pruned.components(np.ones(1))) == 1
