"""The hidden Markov model of taggers, against sums over all labellings of tiny corpora."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concord.schemas.arrays import Floats
from concord.schemas.labels import LabelSet
from concord.workers.learning.estimation.witnesses import (
    HIT,
    NO_SYMBOL,
    Witness,
    WitnessAnswers,
    WitnessLearner,
    WitnessModel,
    coinciding_errors,
    equal_shares,
    groups_of_one,
    independence,
    legal_pairs,
)

TYPES = ("A", "B")
LABELS = LabelSet.bio(TYPES)
SIZE = len(LABELS)


def witness(*labels: str) -> Witness:
    """A tagger whose labels stand for the types in their names: AB is above both."""
    return Witness(labels, np.array([[kind in label for kind in TYPES] for label in labels], np.bool_).reshape(-1, 2))


WITNESSES = (witness("A", "B"), witness("AB"), witness("A"))


@st.composite
def joint_answers(draw: st.DrawFn) -> WitnessAnswers:
    """Up to three taggers on up to three sentences of at most four tokens."""
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    chosen = draw(st.lists(st.sampled_from(WITNESSES), min_size=1, max_size=3))
    codes = [
        np.array(
            draw(st.lists(st.integers(NO_SYMBOL, len(w.symbols) - 1), min_size=sum(lengths), max_size=sum(lengths)))
        )
        for w in chosen
    ]
    bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return WitnessAnswers(bounds, tuple(chosen), tuple(codes), LABELS)


def chance(learner: WitnessLearner, model: WitnessModel, token: int, label: int) -> float:
    """Product of what each tagger says of a token under a hidden label, written out."""
    total = 1.0
    for j, (w, codes) in enumerate(zip(learner.answers.witnesses, learner.answers.codes, strict=True)):
        symbol = int(codes[token])
        if symbol != NO_SYMBOL:
            total *= said(w, learner, model, j, symbol, label) ** learner.weights[j]
    return total


def said(w: Witness, learner: WitnessLearner, model: WitnessModel, j: int, symbol: int, label: int) -> float:
    """p(symbol | hidden label) of one tagger: the event's probability, shared out among its symbols."""
    own = model.reliabilities[j]
    codes = learner.answers.codes[j]
    often = np.array([int((codes == s).sum()) for s in range(len(w.symbols))])
    if label == 0:
        if symbol == 0:
            return float(own.alarms[0])
        m = (symbol - 1) // 2
        pair = often[1 + 2 * m : 3 + 2 * m] + 1.0
        return float(own.alarms[1 + m] * pair[(symbol - 1) % 2] / pair.sum())
    kind, place = (label - 1) // 2, (label - 1) % 2
    if symbol == 0:
        return float(own.events[kind, 2])
    counts = often[1:].reshape(-1, 2).sum(axis=1) + 1.0
    m, mine = (symbol - 1) // 2, (symbol - 1) % 2
    if w.covers[m, kind]:
        return float(own.events[kind, 0 if mine == place else 3] * counts[m] / counts[w.covers[:, kind]].sum())
    share = counts[m] / counts[~w.covers[:, kind]].sum() * (0.8 if mine == place else 0.2)
    return float(own.events[kind, 1] * share)


def by_enumeration(learner: WitnessLearner, model: WitnessModel) -> tuple[float, Floats]:
    """Log of the sum over all legal labellings, and p(label) of each token (N, L)."""
    bounds, total = learner.answers.bounds.tolist(), 0.0
    posterior = np.zeros((bounds[-1], SIZE))
    legal, opens = legal_pairs(LABELS), LABELS.legal_start
    for start, end in pairwise(bounds):
        mass, shares = 0.0, np.zeros((end - start, SIZE))
        for labelling in product(range(SIZE), repeat=end - start):
            pairs = list(pairwise(labelling))
            if not opens[labelling[0]] or not all(legal[pair] for pair in pairs):
                continue
            value = np.exp(sum(model.transition[pair] for pair in pairs))
            for place, label in enumerate(labelling):
                value *= chance(learner, model, start + place, label)
            mass += value
            for place, label in enumerate(labelling):
                shares[place, label] += value
        total += np.log(mass)
        posterior[start:end] = shares / mass
    return total, posterior


@settings(max_examples=25)
@given(joint_answers(), st.floats(0.1, 10.0))
def test_posteriors_are_those_of_enumeration(answers: WitnessAnswers, prior: float) -> None:
    learner = WitnessLearner(answers, [1.0, 0.5, 0.5][: len(answers.codes)], prior)
    *_, step = learner.steps(2, 0.0)
    expected, posterior = learner.expected(step.model)
    score, wanted = by_enumeration(learner, step.model)
    assert expected.score == pytest.approx(score, abs=1e-9)
    np.testing.assert_allclose(posterior, wanted, atol=1e-9)
    for together, codes in zip(expected.together, answers.codes, strict=True):
        assert together.sum() == pytest.approx(int((codes != NO_SYMBOL).sum()))


@settings(max_examples=40)
@given(joint_answers(), st.floats(0.01, 5.0))
def test_the_aim_never_falls(answers: WitnessAnswers, prior: float) -> None:
    learner = WitnessLearner(answers, [1.0, 0.5, 0.5][: len(answers.codes)], prior)
    losses = [step.loss for step in learner.steps(12, -np.inf)]
    assert all(later <= before + 1e-9 * abs(before) + 1e-9 for before, later in pairwise(losses))


@pytest.mark.parametrize("w", WITNESSES)
def test_what_a_tagger_can_say_of_a_token_adds_up_to_one(w: Witness) -> None:
    codes = np.arange(len(w.symbols), dtype=np.int32)
    answers = WitnessAnswers(np.array([0, len(codes)]), (w,), (codes,), LABELS)
    learner = WitnessLearner(answers, [1.0], 1.0)
    *_, step = learner.steps(3, 0.0)
    (table,) = learner.emissions(step.model)
    np.testing.assert_allclose(np.exp(table).sum(axis=1), 1.0)
    np.testing.assert_allclose(step.model.reliabilities[0].events.sum(axis=1), 1.0)


def drawn(seed: int, tokens: int, hits: tuple[float, ...]) -> tuple[WitnessAnswers, np.ndarray]:
    """Taggers that hit so often and otherwise say nothing, of one-token entities and plain words; the hidden labels."""
    rng = np.random.default_rng(seed)
    hidden = np.where(rng.random(tokens) < 0.3, 1 + 2 * rng.integers(0, 2, tokens), 0)
    codes = tuple(np.where(rng.random(tokens) < hit, hidden, 0).astype(np.int32) for hit in hits)
    bounds = np.arange(0, tokens + 1, 4)
    return WitnessAnswers(bounds, (WITNESSES[0],) * len(hits), codes, LABELS), hidden


def test_the_reliable_tagger_is_found_out() -> None:
    answers, hidden = drawn(0, 4000, (0.95, 0.8, 0.5))
    learner = WitnessLearner(answers, [1.0] * 3, 0.05)
    *_, step = learner.steps(50, 1e-7)
    for own, hit in zip(step.model.reliabilities, (0.95, 0.8, 0.5), strict=True):
        assert own.events[:, HIT].mean() == pytest.approx(hit, abs=0.06)
    best = learner.expected(step.model)[1].argmax(axis=1)
    assert (best == hidden).mean() > 0.97


def test_copies_add_nothing() -> None:
    answers, _ = drawn(1, 400, (0.9, 0.6))
    one, other = answers.codes
    thrice = answers._replace(witnesses=(WITNESSES[0],) * 4, codes=(one, one, other, one))
    equal = equal_shares(thrice)
    assert equal[0, 1] == equal[0, 3] == 1.0
    groups = groups_of_one(equal, 4)
    assert groups == [0, 0, 2, 0]
    weights = independence(groups)
    assert weights == [1 / 3, 1 / 3, 1.0, 1 / 3]
    models = []
    for given_answers, own in ((answers, [1.0, 1.0]), (thrice, weights)):
        learner = WitnessLearner(given_answers, own, 2.0)
        *_, step = learner.steps(10, 0.0)
        models.append((learner.scores(step.model), step))
    np.testing.assert_allclose(models[0][0], models[1][0], atol=1e-9)
    assert models[0][1].loss == pytest.approx(models[1][1].loss)


def test_taggers_who_err_alike_are_seen_and_chance_is_not_counted() -> None:
    answers, _hidden = drawn(2, 6000, (0.85, 0.85, 0.85))
    first = answers.codes[0]
    rng = np.random.default_rng(5)
    shadow = np.where(rng.random(len(first)) < 0.8, first, answers.codes[1]).astype(np.int32)
    four = answers._replace(witnesses=(WITNESSES[0],) * 4, codes=(*answers.codes, shadow))
    learner = WitnessLearner(four, [1.0] * 4, 0.2)
    *_, step = learner.steps(20, 1e-6)
    shares = coinciding_errors(learner, step.model, [0, 1, 2, 3])
    assert shares[0, 3] > 0.3
    assert max(shares[0, 2], shares[1, 2]) < 0.15


def test_tokens_that_nobody_was_asked_of_are_left_to_the_chain() -> None:
    codes = np.full(6, NO_SYMBOL, np.int32)
    answers = WitnessAnswers(np.array([0, 2, 6]), (WITNESSES[0],), (codes,), LABELS)
    learner = WitnessLearner(answers, [1.0], 1.0)
    assert not learner.scores(learner.start()).any()
    assert equal_shares(answers._replace(witnesses=(WITNESSES[0],) * 2, codes=(codes, codes))) == {(0, 1): 0.0}
