"""The K best labellings of a document, against enumeration of all labellings."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concord.schemas.arrays import Floats
from concord.schemas.decoded import Budget, Ranking
from concord.schemas.document import Batch, Document
from concord.schemas.labels import Labels
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
from concord.workers.constraints.constraint_set import ConstraintSet
from concord.workers.inference.chains.list_viterbi import list_viterbi
from concord.workers.inference.core.chain import viterbi
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.nbest.engine import BestFound, n_best
from concord.workers.inference.nbest.parts import RankedPart, together
from concord.workers.labelling.labelled import check_settings, label_batch
from concord.workers.labelling.shard import answers_table
from tests.support.made_runs import HashModel, Impossible, consistency, key_of
from tests.support.oracle import naive_objective
from tests.support.seeds import blocks, over_seeds

TOKENS = {1: 7, 2: 7, 3: 5, 4: 4, 5: 3}
"""Of a problem, by its number of labels."""


class Ranked(NamedTuple):
    """All labellings (M, N) of a problem that break nothing hard, the best first, and their scores (M,) in nats."""

    labels: Labels
    score: Floats


def enumerated(problem: Problem) -> Ranked:
    found = all_labellings(len(problem), len(problem.labels))
    found = found[np.isfinite(local_scores(problem.potentials, found))]
    score = np.array([naive_objective(problem, own) for own in found])
    order = np.argsort(-score, kind="stable")
    order = order[np.isfinite(score[order])]
    return Ranked(found[order], score[order])


def check(problem: Problem, found: Ranking, every: Ranked, count: int) -> None:
    """What is listed are different labellings with their scores, in order, and what is said of the others holds."""
    by_labels = {own.tobytes(): score for own, score in zip(every.labels, every.score, strict=True)}
    names = [own.tobytes() for own in found.labels]
    assert len(set(names)) == len(names) <= count
    assert found.score == pytest.approx([by_labels[name] for name in names], abs=1e-7)
    assert (np.diff(found.score) <= 0.0).all()
    left_out = [score for name, score in by_labels.items() if name not in set(names)]
    assert found.bound >= max(left_out, default=-np.inf) - 1e-7
    number = int(found.proven.sum())
    assert found.proven[:number].all()
    assert found.score[:number] == pytest.approx(every.score[:number], abs=2e-6)
    if found.bound == -np.inf:
        assert len(names) == len(every.score)


def small(seed: int) -> Problem:
    labels = EVERY_SET[seed % len(EVERY_SET)]
    rng = np.random.default_rng(seed)
    tokens = int(rng.integers(1, TOKENS[len(labels)] + 1))
    return random_problem(rng, labels=labels, tokens=tokens, rows=seed % 5 < 3, agreements=seed % 7 < 5)


@pytest.mark.parametrize("count", [1, 4, 20, 500])
@pytest.mark.parametrize("block", blocks(6))
def test_the_best_labellings_are_those_of_enumeration(block: int, count: int) -> None:
    for seed in range(12 * block, 12 * block + 12):
        problem = small(seed)
        every = enumerated(problem)
        starts = [viterbi(problem.potentials), *every.labels[:1], *every.labels[-1:]]
        for start in starts:
            found = n_best(problem, start, count)
            check(problem, found, every, count)
            assert found.proven.all()
            assert len(found.score) == min(count, len(every.score))


def test_near_ties_under_large_weights_are_in_the_order_of_their_scores() -> None:
    """Rows of one edge are part of the chain while the list is made, where weights of 10^6 nats round otherwise."""
    for seed in range(25):
        problem = random_problem(
            np.random.default_rng(seed), labels=EVERY_SET[seed % len(EVERY_SET)], tokens=4, agreements=False
        )
        weight = np.where(np.isinf(problem.rows.weight), np.inf, 1e6 / 3)
        p = problem.potentials
        tenths = Potentials(p.unary.round() * 0.1, p.transition.round() * 0.1, p.sentence_starts)
        problem = replace(problem, potentials=tenths, rows=replace(problem.rows, weight=weight))
        found = n_best(problem, viterbi(tenths), 60)
        assert found.score.tolist() == [problem.score(own).objective for own in found.labels]
        assert (np.diff(found.score) <= 0.0).all(), seed


@over_seeds(stay=1, many=18)
def test_what_is_dropped_after_the_last_place_counts_in_the_bound(seed: int) -> None:
    """Even where whatever was not added is known to be worse than anything."""
    problem = small(seed)
    every = enumerated(problem)
    found = BestFound(Prepared.of(problem), every.labels[0], 2)
    for own in np.random.default_rng(seed).permutation(every.labels):
        found.add(own[None, :], -np.inf)
    assert found.bound == pytest.approx(every.score[2] if len(every.score) > 2 else -np.inf)
    assert found.complete(1e-9)


@given(seed=st.integers(0, 10**6), count=st.integers(1, 40), work=st.integers(0, 30_000))
@settings(max_examples=60, deadline=None)
def test_what_a_budget_leaves_open_is_not_called_proven(seed: int, count: int, work: int) -> None:
    problem = small(seed)
    found = n_best(problem, viterbi(problem.potentials), count, budget=Budget(work=work))
    check(problem, found, enumerated(problem), count)


def test_a_budget_that_is_spent_leaves_something_open() -> None:
    found = [n_best(small(seed), viterbi(small(seed).potentials), 20, budget=Budget(work=1)) for seed in range(40)]
    assert sum(not one.proven.all() for one in found) > 5


@pytest.mark.parametrize("most_loss", [0.5, 3.0, np.inf])
def test_lists_of_sentences_are_those_of_enumeration(most_loss: float) -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)
        labels = LABEL_SETS[seed % 4]
        problem = random_problem(rng, labels=labels, tokens=TOKENS[len(labels)], rows=False, agreements=False)
        prepared = Prepared.of(problem)
        lists = list_viterbi(prepared, 25, most_loss)
        bounds = np.append(problem.potentials.sentence_starts, len(problem)).tolist()
        for s, (first, last) in enumerate(pairwise(bounds)):
            every = enumerated(Problem(problem.potentials.part(first, last), labels))
            loss = every.score[0] - every.score if len(every.score) else every.score
            loss = loss[loss <= most_loss][:25]
            assert lists.loss[s, : lists.found[s]] == pytest.approx(loss, abs=1e-9)
            own = {row.tobytes() for row in lists.labels[: lists.found[s], first:last]}
            assert len(own) == lists.found[s]
            scores = [problem.potentials.part(first, last).score(np.frombuffer(row, np.int32)) for row in own]
            assert sorted(scores, reverse=True) == pytest.approx(every.score[: lists.found[s]], abs=1e-9)


@settings(max_examples=60)
@given(st.integers(0, 10**9), st.integers(1, 5), st.sampled_from([1.5, 4.0, np.inf]))
def test_what_parts_left_out_together_loses_no_less_than_is_said(seed: int, count: int, most_loss: float) -> None:
    """Of every combination that is not picked, also of labellings that no part lists."""
    rng = np.random.default_rng(seed)
    losses = [np.sort(rng.exponential(size=4)) for _ in range(3)]
    shown = [int(rng.integers(1, 5)) for _ in losses]
    parts = [
        RankedPart(np.array([p]), np.arange(n, dtype=np.int32)[:, None], own[:n], float([*own, np.inf][n]))
        for p, (own, n) in enumerate(zip(losses, shown, strict=True))
    ]
    found = together(parts, count, most_loss)
    picked = set(map(tuple, found.picks.tolist()))
    others = [picks for picks in np.ndindex(4, 4, 4) if picks not in picked]
    total = [sum(float(own[pick]) for own, pick in zip(losses, picks, strict=True)) for picks in others]
    assert found.rest <= min(total) + 1e-9
    assert found.rest == pytest.approx(min(min(total), most_loss)) or len(found.loss) == count or min(shown) < 4


def test_where_nothing_is_possible_nothing_is_listed() -> None:
    labels = LABEL_SETS[0]
    chain = Potentials(np.zeros((4, 3)), np.zeros((3, 3)), np.array([0, 2], np.int64)).legal(labels)
    impossible = Problem(chain, labels, ("impossible",), impossible_rows(labels, 4, 0))
    broken = np.zeros((4, 3))
    broken[2] = -np.inf
    closed = Problem(Potentials(broken, np.zeros((3, 3)), np.array([0, 2], np.int64)).legal(labels), labels)
    for problem in (impossible, closed):
        found = n_best(problem, np.zeros(4, np.int32), 5)
        assert (len(found.score), found.bound) == (0, -np.inf)


def long_chain(tokens: int) -> Problem:
    """One sentence of a tagger that is rarely sure."""
    rng = np.random.default_rng(7)
    labels = LABEL_SETS[1]
    width = len(labels)
    chain = Potentials(rng.normal(size=(tokens, width)), rng.normal(size=(width, width)), np.zeros(1, np.int64))
    return Problem(chain.legal(labels), labels)


def partitioned(chain: Potentials, count: int) -> list[float]:
    """The ``count`` best local scores, as Lawler (1972) finds them: what is left after an answer is cut at the first
    token that differs, and each piece is a chain of which labels are forbidden."""

    def solved(unary: Floats, fixed: int) -> tuple[float, int, bytes, Floats]:
        own = Potentials(unary, chain.transition, chain.sentence_starts)
        best = viterbi(own)
        return -own.score(best), fixed, best.tobytes(), unary

    heap, found = [solved(chain.unary, 0)], list[float]()
    while heap and len(found) < count:
        heap.sort(key=lambda piece: piece[0])
        loss, fixed, name, unary = heap.pop(0)
        labels = np.frombuffer(name, np.int32)
        found.append(-loss)
        for t in range(fixed, len(labels)):
            piece = unary.copy()
            piece[t, labels[t]] = -np.inf
            for before in range(t):
                piece[before, np.arange(piece.shape[1]) != labels[before]] = -np.inf
            heap += [one for one in [solved(piece, t)] if one[0] < np.inf]
    return found


def test_a_long_sentence_has_the_list_of_another_algorithm() -> None:
    problem = long_chain(60)
    found = n_best(problem, viterbi(problem.potentials), 60)
    assert found.proven.all()
    assert found.score == pytest.approx(partitioned(problem.potentials, 60), abs=1e-9)


def test_labellings_of_a_document_come_in_one_order_wherever_the_list_starts() -> None:
    problem = random_problem(np.random.default_rng(3), labels=LABEL_SETS[1], tokens=5)
    every = enumerated(problem)
    lists = [n_best(problem, start, 12) for start in every.labels[:3]]
    assert all(np.array_equal(lists[0].labels, other.labels) for other in lists)


def test_of_equals_the_answer_that_was_given_comes_first() -> None:
    labels = LABEL_SETS[2]
    problem = Problem(Potentials(np.zeros((2, 2)), np.zeros((2, 2)), np.zeros(1, np.int64)).legal(labels), labels)
    for start in ([0, 1], [1, 1]):
        found = n_best(problem, np.array(start, np.int32), 3)
        assert found.labels[0].tolist() == start
        assert found.proven.all()


def made_run(**chosen: object) -> RunSettings:
    return check_settings(RunSettings.model_validate({"engine": "certify", "n_best": 4} | chosen))


def answers(documents: list[Document], constraints: ConstraintSet, run: RunSettings) -> pa.Table:
    batch = Batch.of(documents)
    found = label_batch(batch, model=HashModel(), constraints=constraints, settings=run)
    return answers_table(batch, found, model=HashModel(), constraints=constraints, settings=run)


MADE = [
    Document.build(name, [["Alba", "met", other], [other, "left"], ["Alba"]])
    for name, other in (("a", "Oslo"), ("b", "Brescia"), ("c", "Kent"))
]


@pytest.mark.parametrize("engine", ["gibbs", "certify", "viterbi"])
def test_the_list_stands_beside_the_answer_and_depends_on_no_neighbour(engine: str) -> None:
    table = answers(MADE, consistency(), made_run(engine=engine))
    assert table.equals(pa.concat_tables(answers([one], consistency(), made_run(engine=engine)) for one in MADE))
    for row in table.to_pylist():
        first, *others = row["n_best"]
        assert (first["gap"], len(others)) == (0.0, 3)
        assert {len(one["labels"]) for one in row["n_best"]} == {len(row["tokens"])}
        assert all(one["proven"] for one in row["n_best"])
        assert row["n_best_bound"] <= others[-1]["score"] + 1e-6
        if row["certified"]:
            assert (first["labels"], first["score"]) == (row["labels"], row["objective"])


def test_what_is_not_asked_for_is_no_column_and_part_of_no_digest() -> None:
    plain, asked = (answers(MADE, consistency(), made_run(n_best=count)) for count in (0, 1))
    assert set(asked.column_names) - set(plain.column_names) == {"n_best", "n_best_bound"}
    keys = [key_of(consistency(), n_best=count).digest for count in (0, 1, 2)]
    assert len(set(keys)) == 3


def test_a_document_that_breaks_something_hard_has_an_empty_list() -> None:
    for row in answers(MADE, Impossible(), made_run()).to_pylist():
        assert (row["n_best"], row["n_best_bound"]) == ([], -np.inf)
    for row in answers(MADE, Impossible(), made_run(on_infeasible="relax")).to_pylist():
        assert len(row["n_best"]) == 4
