"""What engines derive from a problem is computed once and handed on: counted, document by document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from concord.schemas.document import Batch
from concord.schemas.labels import Labels
from concord.schemas.potentials import Potentials
from concord.schemas.problem import Problem
from concord.workers.inference.core import prepared
from concord.workers.inference.core.engine import UNLIMITED
from concord.workers.inference.core.incumbent import Search
from concord.workers.inference.two_stage.price import FIRST_PRICE, Band
from concord.workers.inference.two_stage.violations import Violations
from concord.workers.labelling.labelled import Labelled, label_batch
from concord.workers.synthesis.made_up import synthesize
from tests.support.made_problems import all_rows
from tests.support.made_runs import HashModel, consistency, key_of

DERIVED = ("best_labels", "max_messages", "codec", "uncounted")


class Calls:
    """What was derived, and scored, as (name, whose chain, labels): a chain is kept, so none takes another's place."""

    def __init__(self) -> None:
        self.chains: list[Potentials] = []
        self.made: Counter[tuple[str, int, bytes]] = Counter()

    def counting(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(given: Problem | Potentials, *labels: Labels) -> Any:
            chain = given if isinstance(given, Potentials) else given.potentials
            if not any(chain is other for other in self.chains):
                self.chains.append(chain)
            place = next(i for i, other in enumerate(self.chains) if other is chain)
            self.made[name, place, b"".join(y.tobytes() for y in labels)] += 1
            return function(given, *labels)

        return called

    def of(self, name: str) -> int:
        return sum(count for (made, _, _), count in self.made.items() if made == name)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    counted = Calls()
    for name in DERIVED:
        monkeypatch.setattr(prepared, name, counted.counting(name, getattr(prepared, name)))
    monkeypatch.setattr(Problem, "score", counted.counting("score", Problem.score))
    return counted


class Sure(HashModel):
    """So sure of its labels that no constraint changes them."""

    def potentials(self, batch: Batch) -> Potentials:
        p = super().potentials(batch)
        unary = np.zeros_like(p.unary)
        unary[:, 0] = 1000.0
        return Potentials(unary, p.transition, p.sentence_starts)


def label(engine: str, model: HashModel) -> Labelled:
    documents = Batch.of(list(synthesize(1, seed=1, kind="news")))
    constraints = consistency()
    settings = key_of(constraints, engine=engine, options={}).settings
    return label_batch(documents, model=model, constraints=constraints, settings=settings)


@pytest.mark.parametrize("engine", ["viterbi", "gibbs", "certify", "astar", "cpsat"])
def test_a_document_that_is_optimal_at_once_takes_one_viterbi_and_one_score(engine: str, calls: Calls) -> None:
    answers = label(engine, Sure())
    assert answers.before[0].penalty == 0.0
    assert (calls.of("best_labels"), calls.of("score"), len(calls.made)) == (1, 1, 2)


@pytest.mark.parametrize("engine", ["viterbi", "gibbs", "certify"])
def test_nothing_is_derived_or_scored_twice(engine: str, calls: Calls) -> None:
    answers = label(engine, HashModel())
    assert answers.before[0].penalty > 0.0
    assert (engine == "viterbi") == (calls.of("codec") == 0)
    assert set(calls.made.values()) == {1}, calls.made


def test_prices_on_a_penalty_share_one_chain(calls: Calls) -> None:
    prices = 0
    for seed in range(20):
        search = Search(all_rows(seed), budget=UNLIMITED, incumbent=None)
        if search.closed or search.objective == -np.inf:
            continue
        band = Band(search, Violations(search.problem, once=False), search.viterbi, 5.0, 1e-6)
        band.narrow()
        prices += band.price != FIRST_PRICE
    assert prices > 2
    derived = {made: count for made, count in calls.made.items() if made[0] in ("best_labels", "max_messages")}
    assert set(derived.values()) == {1}, derived


def test_what_is_of_the_chain_is_there_under_its_name() -> None:
    assert all(isinstance(vars(prepared.Prepared)[name], cached_property) for name in prepared.OF_THE_CHAIN)
