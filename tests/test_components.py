"""What hangs together: every cost that a labelling within D can have lies inside a component."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from concord.schemas.labels import LabelSet, Scheme
from concord.schemas.potentials import Potentials
from concord.schemas.problem import ANY, NO_KEY, LinearRows, Problem, Relation, SpanAgreement
from concord.testing.problems import LABEL_SETS, all_labellings, local_scores, random_problem
from concord.workers.inference.certify.components import Pruned, part_of
from concord.workers.inference.core.prepared import Prepared


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
    pruned = Pruned.of(Prepared.of(problem), most_loss)
    parts = [part_of(Prepared.of(problem), component, pruned.sentence) for component in pruned.components(by_sentence)]
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
    pruned = Pruned.of(Prepared(potentials, labels, ("row",), rows), 1.0)
    assert len(pruned.components(np.ones(2))) == together


def joined(pruned: Pruned) -> list[set[int]]:
    """Sentences of all pairs of candidate spans, and of spans and places left outside, that would cost something."""
    problem, spans = pruned.problem, pruned.spans
    items = list(zip(spans.start.tolist(), spans.end.tolist(), spans.type.tolist(), strict=True))
    free = [(t, t + 1, 0) for t in range(len(problem)) if problem.labels.type_of[outside_of(problem, t)].min() < 0]
    parts: list[set[int]] = []
    for a in problem.agreements:
        others = free if a.relation is Relation.UNLABELLED else items
        for one, other in itertools.product(items, others):
            apart = one[1] <= other[0] or other[1] <= one[0]
            if apart and a.cost[one[2], other[2]] > 0 and related(a, one, other):
                met = {int(pruned.sentence[one[0]]), int(pruned.sentence[other[0]])}
                met = met.union(*(part for part in parts if part & met))
                parts = [part for part in parts if not part & met] + [met]
    return sorted(parts, key=min)


def outside_of(problem: Problem, t: int) -> NDArray[np.int64]:
    return np.flatnonzero(np.isfinite(problem.potentials.unary[t]))


def related(agreement: SpanAgreement, one: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    """Does the agreement compare the words of two spans, the first as the longer one?"""
    key, width = agreement.key, agreement.key.shape[1]

    def held(start: int, end: int) -> int:
        return int(key[start, end - start - 1]) if end - start <= width else NO_KEY

    if agreement.relation is Relation.UNLABELLED:
        return held(*one[:2]) in key[other[0]].tolist() and held(*one[:2]) != NO_KEY
    if agreement.relation is Relation.CONTAINED:
        inside = itertools.combinations(range(one[0], one[1] + 1), 2)
        parts = {held(a, b) for a, b in inside if b - a < one[1] - one[0] <= width}
        return held(*other[:2]) in parts - {NO_KEY}
    return held(*one[:2]) == held(*other[:2]) != NO_KEY


@settings(max_examples=60)
@given(st.integers(0, 10**9))
def test_components_are_those_of_all_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, labels=LABEL_SETS[seed % 4], tokens=12, rows=False)
    kept = tuple(a for a in problem.agreements if a.relation is not Relation.DIFFERENT)
    problem = replace(problem, agreements=kept)
    sentences = len(problem.potentials.sentence_starts)
    pruned = Pruned.of(Prepared.of(problem), 1e6)
    found = [set(part.tolist()) for part in pruned.components(np.full(sentences, 1e6))]
    assert found == joined(pruned)


def test_a_pair_of_labels_that_a_row_counts_can_break_it() -> None:
    labels = LabelSet(("O", "x"), Scheme.PLAIN)
    ints, floats = np.ones(1, np.int32), np.ones(1)
    rows = LinearRows(np.array([0, 1], np.int64), ints, ints, ints, floats, 0.5 * floats, floats, 0 * ints)
    potentials = Potentials(np.zeros((2, 2)), np.zeros((2, 2)), np.array([0], np.int64))
    pruned = Pruned.of(Prepared(potentials, labels, ("row",), rows), 1.0)
    assert len(pruned.components(np.ones(1))) == 1


@pytest.mark.parametrize(("longer", "together"), [(0, True), (1, False)])
def test_the_type_of_the_longer_span_is_the_first_of_a_cost(longer: int, together: bool) -> None:
    """Two words of one type, one of them again with the other type; a pair costs where the longer one is a PER."""
    labels = LabelSet.bio(["PER", "ORG"])
    types = np.array([longer, longer, 1 - longer])
    allowed = (labels.type_of[None, :] < 0) | (labels.type_of[None, :] == types[:, None])
    potentials = Potentials(np.where(allowed, 0.0, -np.inf), np.zeros((5, 5)), np.array([0, 2], np.int64))
    key = np.array([[NO_KEY, 1], [0, NO_KEY], [0, NO_KEY]], np.int32)
    agreement = SpanAgreement(0, Relation.CONTAINED, key, np.array([[0.0, 5.0], [0.0, 0.0]]))
    pruned = Pruned.of(Prepared(potentials, labels, ("contained",), agreements=(agreement,)), 1e6)
    assert [part.tolist() for part in pruned.components(np.full(2, 1e6))] == ([[0, 1]] if together else [])
