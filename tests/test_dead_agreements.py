"""Agreements that can charge nothing: the answer of every engine, its proof and its work are those without them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import concord
from concord.schemas.document import Document
from concord.schemas.labels import LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.problem import NO_KEY, Problem, Relation, SpanAgreement
from concord.testing.problems import EVERY_RELATION, EVERY_SET, random_problem
from concord.workers.constraints.consistency import LabelConsistency, PairCounts, Scales
from concord.workers.constraints.constraint_set import build_problem
from concord.workers.inference.registry import SOLVERS
from tests.support.seeds import over_seeds


def dead(problem: Problem, relation: Relation, *, keys: bool) -> SpanAgreement:
    """An agreement without costs, or one without keys, of the last constraint."""
    size, tokens = len(problem.labels.types), len(problem)
    width = 1 if relation is Relation.UNLABELLED else size
    cost = np.zeros((size, width)) if keys else np.full((size, width), np.inf)
    key = np.zeros((tokens, 2), np.int32) if keys else np.full((tokens, 2), NO_KEY, np.int32)
    return SpanAgreement(len(problem.constraint_names), relation, key, cost, relation is not Relation.DIFFERENT)


@pytest.mark.parametrize("engine", list(SOLVERS))
@over_seeds(many=24)
def test_they_change_no_answer_no_status_and_no_work(engine: str, seed: int) -> None:
    rng, labels = np.random.default_rng(seed), EVERY_SET[seed % len(EVERY_SET)]
    problem = random_problem(rng, labels=labels, rows=seed % 3 > 0, agreements=seed % 2 > 0, tokens=1 + seed % 5)
    more = tuple(dead(problem, relation, keys=keys) for relation in EVERY_RELATION for keys in (True, False))
    with_them = replace(
        problem, constraint_names=(*problem.constraint_names, "dead"), agreements=(*problem.agreements, *more)
    )
    alone, found = (concord.solve(one, engine=engine, doc_id="d") for one in (problem, with_them))
    assert found.labels.tolist() == alone.labels.tolist()
    assert (found.status, found.bound, found.objective, found.work) == (
        alone.status,
        alone.bound,
        alone.objective,
        alone.work,
    )
    assert found.score.degree[-1] == found.score.penalties[-1] == 0.0
    assert with_them.score(found.labels).objective == found.objective


def test_consistency_that_training_turned_off_is_not_grounded() -> None:
    labels = LabelSet.bio(["PER", "LOC"])
    gold = Document.build("g", [["Smith", "of", "Smith"]], labels=[["B-PER", "O", "B-LOC"]])
    text = Document.build("d", [["Smith", "met", "Smith"]])
    potentials = Potentials(np.zeros((3, 5)), np.zeros((5, 5)), np.zeros(1, np.int64))
    for scales, relations in ((Scales(0.0, 0.0, 0.0), []), (Scales(0.5, 0.0, 0.0), [Relation.EXACT])):
        learned = LabelConsistency(PairCounts.of([gold], labels), scales)
        problem = build_problem(text, potentials, labels, learned)
        assert [agreement.relation for agreement in problem.agreements] == relations
        assert problem.constraint_names == learned.names
    other = build_problem(Document.build("d", [["No", "word", "twice"]]), potentials, labels, learned)
    assert other.agreements == ()
