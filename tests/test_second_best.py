"""Proofs from a poor incumbent: nothing that is better is ruled out, and no bound is below what is better.

A search that has found the best labelling hides a wrong proof: what the proof says is never below what was found. So
here the incumbent is the second best, or a worse one, and what would find a better one is switched off.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from concord.schemas.decoded import Score
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.problem import ANY, LinearRows, Problem, Relation, SpanAgreement
from concord.testing.problems import (
    LABEL_SETS,
    naive_keys,
    random_problem,
)
from concord.workers.inference.certify import engine as certify
from concord.workers.inference.core.chain import viterbi_score
from concord.workers.inference.core.effort import Effort
from concord.workers.inference.core.engine import UNLIMITED
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.spans import candidate_spans
from concord.workers.inference.relaxation import relaxation
from concord.workers.inference.relaxation.ascent import SPAN
from concord.workers.inference.relaxation.relaxation import relax
from concord.workers.inference.search.partial import chain_loss, root_loss, start_partial
from concord.workers.inference.settings import CertifySettings
from tests.support.ranked_problems import NAMES, Ranked, crowded, ranked
from tests.support.seeds import blocks

CLOSE = 1e-4
"""Nats between the best labelling and the second best of a near tie."""


def small(seed: int) -> Problem:
    """A few labellings of random words, under rows and all relations at random."""
    labels: LabelSet = LABEL_SETS[seed % 4]
    tokens = {2: 7, 3: 4, 5: 3}[len(labels)]
    return random_problem(np.random.default_rng(seed), labels=labels, tokens=tokens, rows=seed % 8 < 4)


def near_tie(problem: Problem) -> Ranked | None:
    """The problem with the second best raised at one token until it is `CLOSE` to the best; None for less than two."""
    before = ranked(problem)
    if len(before.scores) < 2:
        return None
    best, second = before.labellings[:2]
    token = int(np.flatnonzero(best != second)[0])
    unary = problem.potentials.unary.copy()
    unary[token, second[token]] += before.scores[0] - before.scores[1] - CLOSE
    p = problem.potentials
    return ranked(replace(problem, potentials=Potentials(unary, p.transition, p.sentence_starts)))


def scored(objective: float) -> Score:
    """So many nats, all of them local."""
    return Score(objective, np.zeros(0), np.zeros(0))


def check_relaxed(found: Ranked, incumbent: int) -> None:
    """What the relaxation says from an incumbent holds of every labelling that is better."""
    labels, score = found.labellings[incumbent], float(found.scores[incumbent])
    relaxed = relax(Prepared.of(found.problem), labels.copy(), scored(score), Effort(UNLIMITED))
    assert relaxed.bound >= found.scores[0] - 1e-9
    possible = np.isfinite(relaxed.problem.potentials.unary)
    for better in found.labellings[found.scores > score + 1e-6]:
        assert possible[np.arange(len(better)), better].all(), better


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The relaxation keeps its incumbent, whatever it meets."""
    monkeypatch.setattr(relaxation._Relaxation, "_offer", lambda *_: None)


@pytest.mark.usefixtures("blind")
@pytest.mark.parametrize("block", blocks(8))
def test_prices_rule_out_nothing_that_is_better(block: int) -> None:
    for seed in range(block, 64, 8):
        found = near_tie(crowded(seed) if seed % 2 else small(seed // 2))
        if found is not None:
            check_relaxed(found, 1)
            check_relaxed(found, len(found.scores) // 2)


@pytest.mark.parametrize("block", blocks(8))
def test_under_any_prices_every_labelling_loses_what_is_said(block: int) -> None:
    for seed in range(block, 120, 8):
        check_prices(np.random.default_rng(seed), ranked(crowded(seed)))


def check_prices(rng: np.random.Generator, found: Ranked) -> None:
    """Made-up prices, high where the best labelling pays them: the bound, and what items lose at least."""
    problem, top = found.problem, viterbi_score(found.problem.potentials)
    incumbent = found.labellings[-1], scored(top - 900.0)
    prepared = Prepared.of(problem)
    relaxed = relaxation._Relaxation(prepared, prepared, top, *incumbent, Effort(UNLIMITED))
    spans = candidate_spans(Prepared.of(problem), 900.0)
    listed = list(zip(spans.start.tolist(), spans.end.tolist(), spans.type.tolist(), strict=True))
    wanted = np.append([span in spans_of(found, 0) for span in listed], problem.labels.type_of[found.labellings[0]] < 0)
    members = relaxed._members(spans, np.ones(len(spans), np.bool_))
    kept, _ = relaxation._grouped(relaxed.state, members)
    named = members[kept]
    prices = np.where(wanted[named[:, SPAN]], rng.uniform(0.0, 4.0, len(named)), rng.uniform(0.0, 0.01, len(named)))
    named[:, SPAN] = relaxed._item_codes(spans)[named[:, SPAN]]
    relaxed._remember(named, prices)
    bound = relaxed._start(spans)
    span_loss, outside_loss = relaxed._losses(spans, bound)
    least = dict(zip(listed, span_loss.tolist(), strict=True))
    for rank, (labels, score) in enumerate(zip(found.labellings, found.scores, strict=True)):
        loss = top - score + 1e-7
        assert bound.value <= loss
        assert all(least[span] <= loss for span in spans_of(found, rank))
        outside = np.flatnonzero(problem.labels.type_of[labels] < 0)
        assert (outside_loss[outside, labels[outside]] <= loss).all()


def spans_of(found: Ranked, rank: int) -> set[tuple[int, int, int]]:
    has = found.problem.labels.spans(found.labellings[rank], found.problem.potentials.sentence_starts)
    return set(zip(has.start.tolist(), has.end.tolist(), has.type.tolist(), strict=True))


@pytest.mark.parametrize("rounds", [0, 2])
@pytest.mark.parametrize("block", blocks(4))
def test_certify_leaves_a_second_best_behind(block: int, rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relaxation._Relaxation, "_offer", lambda *_: None)
    for seed in range(block, 40, 4):
        found = near_tie(small(seed))
        if found is None:
            continue
        config = CertifySettings(rounds=rounds, tolerance=CLOSE / 10.0)
        second: Labels = found.labellings[1]
        decoded = certify.solve(found.problem, config=config, rng=np.random.default_rng(seed), incumbent=second)
        assert decoded.objective == pytest.approx(found.scores[0], abs=CLOSE / 5.0), seed
        assert decoded.bound >= found.scores[0] - 1e-9


def test_a_conflict_that_costs_nearly_all_of_the_loss_holds_sentences_together() -> None:
    """One word twice, the last an ORG for sure; the first must not be O, and PER loses a little less than ORG."""
    sure = np.array([0.0, -50.0, -50.0, -50.0, -50.0])
    unary = np.array([[0.0, -0.95, -50.0, -1.0, -50.0], sure, sure, np.roll(sure, NAMES.opening[1])])
    starts, best = np.array([0, 3], np.int64), np.array([NAMES.opening[1], 0, 0, NAMES.opening[1]], np.int32)
    agreement = SpanAgreement(1, Relation.EXACT, naive_keys([0, 1, 2, 0], [0, 3], 1), 5.0 * (1.0 - np.eye(2)))
    # The row looks at three tokens, so that it is no part of the chain: not O at the first and at the third.
    named = LinearRows(
        np.array([0, 2]),
        np.array([0, 2], np.int32),
        np.full(2, ANY, np.int32),
        np.zeros(2, np.int32),
        np.ones(2),
        np.ones(1),
        np.full(1, 10.0),
        np.zeros(1, np.int32),
    )
    problem = Problem(
        Potentials(unary, np.zeros((5, 5)), starts).legal(NAMES), NAMES, ("row", "exact"), named, (agreement,)
    )
    config = CertifySettings(rounds=0, branches=0)
    decoded = certify.solve(problem, config=config, rng=np.random.default_rng(0), incumbent=best)
    assert decoded.labels.tolist() == best.tolist()
    assert decoded.bound == pytest.approx(-1.0, abs=1e-5)


def test_a_search_starts_with_all_labels_of_what_is_a_little_better() -> None:
    paying = 0
    for seed in range(120):
        problem = random_problem(np.random.default_rng(seed), labels=LABEL_SETS[seed % 4], tokens=3, agreements=False)
        found, prepared = ranked(problem), Prepared.of(problem)
        top = prepared.viterbi_score
        partial = start_partial(prepared, chain_loss(prepared), top=top, limit=top - float(found.scores[0]) + CLOSE)
        assert partial is not None
        assert partial.alive[np.arange(3), found.labellings[0]].all()
        paying += root_loss(partial) > 0.0
    assert paying > 10
