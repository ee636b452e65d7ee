"""Settled answers, against enumeration of all labellings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from concord.schemas.decoded import Status
from concord.schemas.document import Document
from concord.schemas.labels import Labels, LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.problem import Problem
from concord.schemas.run import RunSettings
from concord.testing.problems import (
    EVERY_SET,
    LABEL_SETS,
    all_labellings,
    impossible_rows,
    local_scores,
    random_problem,
)
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.nbest import settled as inference_settled
from concord.workers.inference.nbest.settled import settled_near
from concord.workers.inference.numerics import LEAD
from concord.workers.labelling.labelled import _AnswerOrigin, _decoded, check_settings, run_decoder
from tests.support.judged import EXACT
from tests.support.oracle import naive_objective
from tests.support.seeds import blocks

TOKENS = {1: 7, 2: 7, 3: 5, 4: 4, 5: 3}
"""Number of tokens of a problem, by its number of labels."""


def ranked(problem: Problem) -> list[tuple[float, Labels]]:
    """Labellings that break nothing hard with their scores, the best first."""
    found = all_labellings(len(problem), len(problem.labels))
    found = found[np.isfinite(local_scores(problem.potentials, found))]
    pairs = [(naive_objective(problem, own), own) for own in found]
    return sorted((pair for pair in pairs if np.isfinite(pair[0])), key=lambda pair: -pair[0])


def small(seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    labels = EVERY_SET[seed % len(EVERY_SET)]
    return random_problem(rng, labels=labels, tokens=1 + seed % TOKENS[len(labels)])


@pytest.mark.parametrize("block", blocks(4))
def test_an_answer_is_settled_exactly_if_all_others_score_less_by_the_lead(block: int) -> None:
    settled_ones = 0
    for seed in range(100 * block, 100 * block + 100):
        problem = small(seed)
        every = ranked(problem)
        for start in every[:2]:
            (score, best), others = every[0], every[1][0] if len(every) > 1 else -np.inf
            found = settled_near(problem, start[1])
            if found is None:
                assert others > score - LEAD or start is not every[0], seed
                continue
            settled_ones += 1
            assert np.array_equal(found.labels, best)
            assert others <= score - LEAD / 2, seed
            assert found.status is Status.OPTIMAL
            assert found.bound == found.objective == pytest.approx(score, abs=1e-9)
    assert settled_ones > 50


def test_of_equals_none_is_settled() -> None:
    labels = LABEL_SETS[0]
    equal = Potentials(np.zeros((3, len(labels))), np.zeros((len(labels), len(labels))), np.array([0]))
    problem = Problem(equal.legal(labels), labels)
    for _, own in ranked(problem):
        assert settled_near(problem, own) is None


def test_where_nothing_keeps_the_hard_constraints_nothing_is_settled() -> None:
    problem = small(3)
    rows = impossible_rows(problem.labels, len(problem), 0)
    hopeless = replace(problem, constraint_names=("impossible",), rows=rows, agreements=())
    assert settled_near(hopeless, np.zeros(len(problem), np.int32)) is None


@pytest.mark.parametrize("block", blocks(4))
def test_what_is_found_near_any_start_is_the_one_settled_answer(block: int) -> None:
    found_elsewhere = 0
    for seed in range(100 * block, 100 * block + 100):
        problem, rng = small(seed), np.random.default_rng(seed)
        every = ranked(problem)
        if not every:
            continue
        best = settled_near(problem, every[0][1])
        for start in (every[0][1], every[-1][1], every[rng.integers(len(every))][1]):
            found = settled_near(problem, start)
            if found is not None:
                assert best is not None, seed
                assert np.array_equal(found.labels, best.labels), seed
                assert (found.bound, found.status) == (best.bound, best.status)
                found_elsewhere += not np.array_equal(start, best.labels)
    assert found_elsewhere > 20


# Runs that settle: every engine that proves, crossed with every label scheme

DOCUMENT = Document.build("d", [["w"]])


@pytest.mark.parametrize("labels", EVERY_SET, ids=lambda labels: f"{labels.scheme} {' '.join(labels.names)}")
@pytest.mark.parametrize("engine", EXACT)
def test_whoever_finds_it_a_settled_answer_is_the_best_and_the_same(engine: str, labels: LabelSet) -> None:
    settings = check_settings(RunSettings(engine=engine, settle=True))
    decoder, settled, near = run_decoder(settings), 0, 0
    for seed in range(24):
        rng = np.random.default_rng(seed)
        tokens = 1 + seed % TOKENS[len(labels)]
        made = random_problem(rng, labels=labels, tokens=tokens, infeasible=seed % 8 == 7)
        problem = Prepared.of(made)
        every = ranked(problem)
        alone, found = _decoded(problem, DOCUMENT, decoder, settings, None)
        searched = decoder(problem, DOCUMENT.doc_id)
        if not every:
            assert (found, alone.status) == (_AnswerOrigin.SEARCHED, searched.status), seed
            continue
        if found is _AnswerOrigin.SEARCHED:
            assert np.array_equal(alone.labels, searched.labels), seed
        else:
            (score, best), others = every[0], every[1][0] if len(every) > 1 else -np.inf
            assert np.array_equal(alone.labels, best), seed
            assert others <= score - LEAD / 2, seed
            settled += 1
        if searched.certified:
            assert alone.objective == pytest.approx(searched.objective, abs=1e-6), seed
        for guess in (every[0][1], every[-1][1], rng.integers(0, len(labels), tokens).astype(np.int32)):
            guessed, how = _decoded(problem, DOCUMENT, decoder, settings, guess)
            if _AnswerOrigin.SEARCHED not in (found, how):
                assert np.array_equal(guessed.labels, alone.labels), seed
                assert (guessed.status, guessed.bound) == (alone.status, alone.bound), seed
            near += how is _AnswerOrigin.NEAR_GUESS
    assert settled >= 5
    assert near >= 5


def test_the_answer_of_an_engine_is_given_more_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference_settled, "LEAST_WORK", 200)
    monkeypatch.setattr(inference_settled, "WORK_A_TOKEN", 0)
    settings = check_settings(RunSettings(engine="certify", settle=True))
    decoder, longer = run_decoder(settings), 0
    for seed in range(200):
        problem = Prepared.of(small(seed))
        searched = decoder(problem, DOCUMENT.doc_id)
        if any(settled_near(problem, start) is not None for start in (problem.viterbi, searched.labels)):
            continue
        decoded, found = _decoded(problem, DOCUMENT, decoder, settings, None)
        assert np.array_equal(decoded.labels, searched.labels), seed
        longer += found is _AnswerOrigin.SETTLED
    assert longer > 10
