"""Marginals of spans and certified margins of entities, against enumeration of all labellings."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from concord.schemas.decoded import MarginStatus
from concord.schemas.document import Batch, Document
from concord.schemas.labels import Labels, LabelSet, Spans
from concord.schemas.potentials import Potentials
from concord.schemas.problem import Problem
from concord.schemas.run import RunSettings
from concord.testing.problems import EVERY_SET, LOOSE_SETS, all_labellings, random_problem
from concord.workers.constraints.constraint_set import ConstraintSet, Unconstrained
from concord.workers.inference.core.prepared import Prepared
from concord.workers.inference.core.span_marginals import span_marginals
from concord.workers.labelling.confidence import Entity, Rival, _Prover, confidence, lacking
from concord.workers.labelling.labelled import check_settings, label_batch, run_decoder
from concord.workers.labelling.shard import answers_table
from tests.support.made_runs import HashModel, Impossible, consistency
from tests.support.oracle import Span, naive_spans
from tests.support.seeds import blocks

TOKENS = {1: 6, 2: 6, 3: 5, 4: 4, 5: 4}
"""Of a problem, by its number of labels."""

MARGIN = check_settings(RunSettings(engine="certify", confidence="margin"))


class Enumerated:
    """All labellings of a problem that the chain allows, with their objectives and spans."""

    def __init__(self, problem: Problem) -> None:
        found = all_labellings(len(problem), len(problem.labels))
        local = np.array([problem.potentials.score(y) for y in found])
        starts = problem.potentials.sentence_starts.tolist()
        self.local = local[np.isfinite(local)]
        self.labellings = found[np.isfinite(local)]
        self.objective = np.array([problem.score(y).objective for y in self.labellings])
        self.spans = [set(naive_spans(y, problem.labels, starts)) for y in self.labellings]

    def probability(self, span: Span) -> float:
        weight = np.exp(self.local - self.local.max())
        return float(weight[[span in own for own in self.spans]].sum() / weight.sum())

    def best_without(self, span: Span) -> float:
        return float(self.objective[[span not in own for own in self.spans]].max(initial=-np.inf))


def small(seed: int, *, rows: bool = True, agreements: bool = True) -> Problem:
    labels = EVERY_SET[seed % len(EVERY_SET)]
    rng = np.random.default_rng(seed)
    tokens = int(rng.integers(1, TOKENS[len(labels)] + 1))
    return random_problem(rng, labels=labels, tokens=tokens, rows=rows, agreements=agreements)


def as_spans(spans: list[Span]) -> Spans:
    columns = np.array(spans, np.int64).reshape(-1, 3).T
    return Spans(columns[0].copy(), columns[1].copy(), columns[2].astype(np.int32))


def every_span(problem: Problem) -> list[Span]:
    """Also those that no labelling has."""
    starts = problem.potentials.sentence_starts
    ends = np.append(starts[1:], len(problem))
    sentences = [(a, b) for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
    cuts = [(s, e) for a, b in sentences for s in range(a, b) for e in range(s + 1, b + 1)]
    return [(s, e, kind) for s, e in cuts for kind in range(len(problem.labels.types))]


@pytest.mark.parametrize("block", blocks(4))
def test_marginals_of_spans_equal_enumeration(block: int) -> None:
    longest = 0
    for seed in range(15 * block, 15 * block + 15):
        problem = small(seed, rows=False, agreements=False)
        every, spans = Enumerated(problem), every_span(problem)
        found = span_marginals(Prepared.of(problem), as_spans(spans))
        assert found == pytest.approx([every.probability(span) for span in spans], abs=1e-12)
        longest = max(longest, *(end - start for (start, end, _), p in zip(spans, found, strict=True) if p > 0), 0)
    assert longest > 2


def test_a_span_in_a_sentence_that_has_no_labelling_has_no_probability() -> None:
    labels = LabelSet.bio(["PER"])
    unary = np.zeros((3, 3))
    unary[2] = -np.inf
    chain = Potentials(unary, np.zeros((3, 3)), np.array([0, 1], np.int64)).legal(labels)
    found = span_marginals(Prepared.of(Problem(chain, labels)), as_spans([(0, 1, 0), (1, 2, 0)]))
    assert found[0] == pytest.approx(1 / 2)
    assert np.isnan(found[1])


@pytest.mark.parametrize("labels", EVERY_SET, ids=lambda labels: f"{labels.scheme},{','.join(labels.names)}")
def test_the_cases_are_all_labellings_without_the_entity(labels: LabelSet) -> None:
    count = TOKENS[len(labels)]
    chain = Potentials(np.zeros((count, len(labels))), np.zeros((len(labels),) * 2), np.zeros(1, np.int64))
    problem = Problem(chain.legal(labels), labels)
    every, tokens = Enumerated(problem), np.arange(count)
    for span in every_span(problem):
        cases = list(lacking(problem.potentials.unary, labels, Entity(*span)))
        for labelling, own in zip(every.labellings, every.spans, strict=True):
            allowed = any(np.isfinite(unary[tokens, labelling]).all() for unary in cases)
            assert allowed == (span not in own)


def check_margins(problem: Problem, settings: RunSettings) -> list[MarginStatus | None]:
    """Checks the margins of an engine's answer; returns what was said of them."""
    prepared, every = Prepared.of(problem), Enumerated(problem)
    answer = run_decoder(settings)(prepared, "d")
    if not np.isfinite(answer.objective):
        return []
    found = confidence(prepared, answer, "d", settings)
    assert found.margin is not None
    spans = naive_spans(answer.labels, problem.labels, problem.potentials.sentence_starts.tolist())
    for span, nats, status in zip(spans, found.margin, found.status, strict=True):
        true = answer.objective - every.best_without(span)
        assert nats <= true + 1e-6
        if status is not MarginStatus.BOUND:
            assert nats == pytest.approx(true, abs=1e-5)
    return list(found.status)


@pytest.mark.parametrize("block", blocks(6))
def test_margins_equal_enumeration(block: int) -> None:
    said: list[MarginStatus | None] = []
    for seed in range(9 * block, 9 * block + 9):
        said += check_margins(small(seed, rows=seed % 5 > 0, agreements=seed % 5 < 3), MARGIN)
    assert said.count(MarginStatus.BOUND) == 0
    assert said.count(MarginStatus.EXACT) > 5


def test_an_entity_that_opens_with_its_inner_label_is_as_sure_as_it_is() -> None:
    """I-PER, O: of nine labellings four have a span of one token there, two with B and two with I."""
    labels, starts = LOOSE_SETS[0], np.zeros(1, np.int64)
    unary = np.array([[0.0, 1.0, 4.0], [2.0, 0.0, -1.0]])
    problem = Prepared.of(Problem(Potentials(unary, np.zeros((3, 3)), starts), labels))
    every, answer = Enumerated(problem), run_decoder(MARGIN)(problem, "d")
    assert labels.decode(answer.labels) == ["I-PER", "O"]
    found = confidence(problem, answer, "d", MARGIN)
    assert found.margin is not None
    assert found.probability == pytest.approx([every.probability((0, 1, 0))])
    assert found.margin == pytest.approx([answer.objective - every.best_without((0, 1, 0))])
    assert found.margin == pytest.approx([3.0])
    assert found.probability[0] > 0.9


def test_margins_of_cases_that_tie_equal_enumeration() -> None:
    """Whole numbers: cases often have one local optimum, and the next one may be no better than what was found."""
    for seed in range(24):
        labels, rng = EVERY_SET[seed % len(EVERY_SET)], np.random.default_rng(seed)
        count = TOKENS[len(labels)]
        unary = rng.integers(-1, 3, (count, len(labels))).astype(np.float64)
        chain = Potentials(unary, np.zeros((len(labels),) * 2), np.zeros(1, np.int64)).legal(labels)
        check_margins(Problem(chain, labels), MARGIN)


def test_cases_are_solved_from_the_best_down_and_no_more_than_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is charged the first case is the answer: its local optimum is above those of all others."""
    solved: list[float] = []

    def noted(prover: _Prover, local: float, case: Potentials, labels: Labels) -> Rival:
        solved.append(local)
        return found(prover, local, case, labels)

    found = _Prover._solved
    monkeypatch.setattr(_Prover, "_solved", noted)
    entities = 0
    for seed in range(12):
        problem = Prepared.of(small(seed, rows=False, agreements=False))
        answer = run_decoder(MARGIN)(problem, "d")
        said = confidence(problem, answer, "d", MARGIN)
        assert said.margin is not None
        entities += int(np.isfinite(said.margin).sum())
        assert len(solved) == entities
    assert entities > 10


@pytest.mark.parametrize("engine", ["viterbi", "gibbs", "discrepancy"])
def test_margins_of_any_engines_answer_equal_enumeration(engine: str) -> None:
    settings = check_settings(RunSettings(engine=engine, confidence="margin"))
    said = [status for seed in range(100, 112) for status in check_margins(small(seed), settings)]
    assert said


def test_a_margin_without_effort_is_a_bound_that_holds() -> None:
    settings = MARGIN.model_copy(update={"margin_work": 1})
    said = [status for seed in range(24) for status in check_margins(small(seed), settings)]
    assert said.count(MarginStatus.BOUND) > 5


def test_an_entity_that_every_labelling_has_is_beyond_doubt() -> None:
    labels = LabelSet.bio(["PER"])
    unary = np.full((1, 3), -np.inf)
    unary[0, 1] = 0.5
    problem = Prepared.of(Problem(Potentials(unary, np.zeros((3, 3)), np.zeros(1, np.int64)).legal(labels), labels))
    found = confidence(problem, run_decoder(MARGIN)(problem, "d"), "d", MARGIN)
    assert found.margin is not None
    assert (found.probability.tolist(), found.margin.tolist(), found.status) == ([1.0], [np.inf], ("exact",))


def table_of(documents: list[Document], constraints: ConstraintSet, settings: RunSettings) -> pa.Table:
    batch = Batch.of(documents)
    found = label_batch(batch, model=HashModel(), constraints=constraints, settings=settings)
    return answers_table(batch, found, model=HashModel(), constraints=constraints, settings=settings)


SHORT = [
    Document.build(name, [["Alba", "met", other], [other, "left"], ["Alba"]])
    for name, other in (("a", "Oslo"), ("b", "Brescia"), ("c", "Kent"))
]


@pytest.mark.parametrize("engine", ["gibbs", "certify"])
def test_the_columns_stand_beside_the_entities_and_depend_on_no_neighbour(engine: str) -> None:
    constraints, settings = consistency(), check_settings(RunSettings(engine=engine, confidence="margin"))
    table = table_of(SHORT, constraints, settings)
    assert table.equals(pa.concat_tables(table_of([one], constraints, settings) for one in SHORT))
    assert sum(map(len, table["entities"].to_pylist())) > 3
    for row in table.to_pylist():
        lengths = {len(row[name]) for name in ("entities", "entity_probability", "entity_margin", "margin_status")}
        assert lengths == {len(row["entities"])}
        assert all(0.0 < p <= 1.0 for p in row["entity_probability"])
        assert set(row["margin_status"]) <= {str(status) for status in MarginStatus}


def test_what_is_not_asked_for_is_no_column() -> None:
    names = {
        kind: set(table_of(SHORT, Unconstrained(), check_settings(RunSettings(confidence=kind))).column_names)
        for kind in ("none", "marginal", "margin")
    }
    assert names["marginal"] - names["none"] == {"entity_probability"}
    assert names["margin"] - names["marginal"] == {"entity_margin", "margin_status"}


def test_without_constraints_margins_are_those_of_the_chain() -> None:
    settings = check_settings(RunSettings(engine="viterbi", confidence="margin"))
    row = table_of(SHORT, Unconstrained(), settings).to_pylist()[0]
    assert set(row["margin_status"]) == {"exact"}
    assert all(margin >= 0.0 for margin in row["entity_margin"])


def test_an_answer_that_breaks_something_hard_has_no_margins_and_a_relaxed_one_has_those_of_its_problem() -> None:
    for policy in ("viterbi", "relax"):
        settings = check_settings(RunSettings(engine="viterbi", confidence="margin", on_infeasible=policy))
        row = table_of(SHORT, Impossible(), settings).to_pylist()[0]
        assert len(row["entity_probability"]) == len(row["entities"]) > 0
        if policy == "viterbi":
            assert row["entity_margin"] == row["margin_status"] == [None] * len(row["entities"])
        else:
            assert row["status"] == "relaxed"
            assert all(np.isfinite(row["entity_margin"]))
