"""What constraints do on a corpus: counts, warnings, smallest conflicting sets, explanations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from concord.schemas.arrays import Floats
from concord.schemas.audit import CheckReport, ConstraintCheck
from concord.schemas.document import Batch, Document
from concord.schemas.labels import LabelError, LabelSet, Scheme
from concord.schemas.potentials import Potentials
from concord.schemas.problem import Problem
from concord.workers.audit.auditing import check, explain
from concord.workers.audit.conflicts import Conflicts, feasible, smallest_conflict, strict_problem
from concord.workers.constraints.constraint_set import build_problem
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.rows import ConstraintError
from concord.workers.constraints.templates.features import TokenFeature
from concord.workers.constraints.templates.presence import MustAppear, StartsWith
from concord.workers.constraints.templates.repeats import Consistent
from concord.workers.constraints.templates.runs import AppearsOnce, AtMostRuns
from concord.workers.constraints.templates.template import Template, TokenTest
from concord.workers.constraints.templates.words import Lexicon, ShouldBeTagged
from concord.workers.inference.registry import Decoder
from concord.workers.models.model import LocalScores

LABELS = LabelSet(("author", "title", "date"), Scheme.PLAIN)
HARD = float("inf")


@dataclass(frozen=True)
class TableModel:
    """Fixed scores for each word; 0 for a word it does not know."""

    words: dict[str, list[float]]
    labels: LabelSet = LABELS
    digest: str = "table"
    columns: tuple[str, ...] = ()

    def potentials(self, batch: Batch) -> Potentials:
        table: Floats = np.array([self.words.get(w, [0.0] * 3) for w in batch.columns["tokens"].strings()])
        return Potentials(table, np.zeros((3, 3)), batch.sentence_starts)


class ChanceModel(TableModel):
    """Scores by chance, other ones for each document: no two labellings are equally good."""

    def potentials(self, batch: Batch) -> Potentials:
        lengths = np.diff(batch.doc_starts).tolist()
        tables = [
            np.random.default_rng([*name.encode()]).normal(size=(n, 3))
            for name, n in zip(batch.doc_ids, lengths, strict=True)
        ]
        return Potentials(np.concatenate(tables), np.zeros((3, 3)), batch.sentence_starts)


MODEL = TableModel({"Ann": [2.0, 0.0, 0.0], "rain": [0.0, 2.0, 0.0], "1990": [0.0, 0.5, 0.0], ",": [0.1, 0.0, 0.0]})


def batch() -> Batch:
    return Batch.of(
        [
            Document.build("one", [["Ann", ",", "rain", "1990"]], labels=[["author", "author", "title", "date"]]),
            Document.build("two", [["rain", "Ann", "1990"]], labels=[["title", "author", "date"]]),
        ]
    )


def declared(*templates: Template) -> DeclaredConstraints:
    return DeclaredConstraints(templates)


def lexicon(words: str, labels: tuple[str, ...], weight: float = 1.0) -> Lexicon:
    return Lexicon(words=TokenTest(words=tuple(words.split())), labels=labels, weight=weight)


def row(report: CheckReport, name: str) -> ConstraintCheck:
    return next(c for c in report.constraints if c.name == name)


def test_counts_in_gold_and_in_the_models_output() -> None:
    start = StartsWith(labels=("author",), weight=2.0, name="start")
    year = lexicon("1990", ("date",), 1.5).model_copy(update={"name": "year"})
    report = check([batch()], declared(start, year), LABELS, model=MODEL)
    assert (report.documents, report.tokens, report.with_gold) == (2, 7, 2)
    first = row(report, "start")
    assert (first.documents, first.places, first.weight) == (2, 2, 2.0)
    assert first.gold is not None
    assert first.model is not None
    assert (first.gold.documents, first.gold.places, first.gold.degree, first.gold.penalty) == (1, 1, 1.0, 2.0)
    second = row(report, "year")
    assert second.gold is not None
    assert second.model is not None
    assert (second.gold.places, second.model.places, second.model.penalty) == (0, 2, 3.0)
    assert not second.warnings


def test_the_engines_output_is_what_is_counted_when_one_is_given() -> None:
    year = lexicon("1990", ("date",), 1.5)
    report = check([batch()], declared(year), LABELS, model=MODEL, decoder=Decoder.of("cpsat"))
    (only,) = report.constraints
    assert only.model is not None
    assert only.model.places == 0
    assert only.effect is not None
    assert only.effect.documents == 2
    assert not only.warnings, "it is kept there since it changed the answer"


def test_warnings() -> None:
    report = check(
        [batch()],
        declared(
            lexicon("nowhere", ("date",)).model_copy(update={"name": "never"}),
            MustAppear(labels=("title",), weight=1.0, name="holds"),
            StartsWith(labels=("author",), weight=HARD, name="hard"),
            lexicon("rain", ("author",)).model_copy(update={"name": "wrong way"}),
        ),
        LABELS,
        model=MODEL,
    )
    assert row(report, "never").warnings == ("never applies: no document has a place for it",)
    assert row(report, "never").places == 0
    assert row(report, "holds").warnings == ("always holds in the model's output: it changes nothing there",)
    assert any("hard, but the gold labels of 1 documents" in w for w in row(report, "hard").warnings)
    hard = row(report, "hard").gold
    assert hard is not None
    assert hard.penalty == np.inf


def test_without_gold_and_without_a_model() -> None:
    plain = Batch.of([Document.build("d", [["Ann"]])])
    (only,) = check([plain], declared(StartsWith(labels=("author",), weight=1.0)), LABELS).constraints
    assert (only.gold, only.model, only.warnings) == (None, None, ())


def test_labels_are_checked_first() -> None:
    with pytest.raises(ConstraintError, match="unknown label 'autor'"):
        check([], declared(StartsWith(labels=("autor",), weight=1.0)), LABELS)


def test_gold_that_the_labels_do_not_have_is_told_with_its_document() -> None:
    odd = Batch.of([Document.build("odd", [["Ann"]], labels=[["autor"]])])
    with pytest.raises(LabelError, match=r"document 'odd': unknown label 'autor'; .*; take it out"):
        check([odd], declared(StartsWith(labels=("author",), weight=1.0)), LABELS)


def test_a_smallest_conflicting_set_is_found_and_named() -> None:
    sets = declared(
        MustAppear(labels=("title",), weight=HARD, name="needs a title"),
        lexicon("Ann rain", ("author",), HARD).model_copy(update={"name": "words"}),
        lexicon("1990", ("date",), HARD).model_copy(update={"name": "year"}),
        lexicon(",", ("author", "date"), HARD).model_copy(update={"name": "comma"}),
        AppearsOnce(weight=1.0, name="once"),
    )
    report = check([batch()], sets, LABELS)
    assert all(conflict.hard and conflict.documents == 1 for conflict in report.conflicts)
    found = {conflict.doc_id: conflict.constraints for conflict in report.conflicts}
    three = ("needs a title", "words", "year")
    assert found == {"one": (*three, "comma"), "two": three}
    assert any("contradicts words, year in 1 documents" in w for w in row(report, "needs a title").warnings)
    assert not any("contradicts" in w for w in row(report, "once").warnings)


def test_soft_constraints_that_cannot_both_hold_are_told_apart_from_hard_ones() -> None:
    sets = declared(
        StartsWith(labels=("author",), weight=1.0, name="a"),
        ShouldBeTagged(position=0, labels=("title",), weight=HARD, name="b"),
    )
    report = check([batch()], sets, LABELS)
    (conflict,) = report.conflicts
    assert (conflict.constraints, conflict.hard, conflict.documents, conflict.doc_id) == (("a", "b"), False, 2, "one")


def test_feasibility_and_minimality_agree_with_enumeration() -> None:
    rng = np.random.default_rng(5)
    words = ("x", "y", "z")
    infeasible = 0
    for _ in range(12):
        document = Document.build("d", [[words[i] for i in rng.integers(3, size=3)]])
        sets = declared(
            *(
                lexicon(w, tuple(LABELS.names[i] for i in np.flatnonzero(rng.random(3) < 0.4)) or ("date",))
                for w in words
            ),
            MustAppear(labels=("title",), weight=1.0),
            AtMostRuns(labels=("author", "title", "date"), limit=int(rng.integers(1, 3)), weight=1.0),
            StartsWith(labels=(LABELS.names[rng.integers(3)],), weight=1.0),
            Consistent(weight=1.0),
        )
        problem = strict_problem(document, LABELS, sets)
        degrees = np.array(
            [problem.score(np.array(y, np.int32)).degree for y in product(range(3), repeat=len(document))]
        )

        def holds(group: list[int], degrees: Floats = degrees) -> bool:
            return bool((degrees[:, group] == 0).all(axis=1).any())

        for size in (1, 2):
            for group in combinations(range(len(sets.names)), size):
                assert feasible(problem, group, "d") == holds(list(group))
        everything = list(range(len(sets.names)))
        if holds(everything):
            continue
        infeasible += 1
        smallest = smallest_conflict(problem, everything, "d")
        assert not holds(smallest)
        assert all(holds([k for k in smallest if k != left_out]) for left_out in smallest)
    assert infeasible > 2


def spans_of(labels: Sequence[str]) -> set[tuple[int, int, str]]:
    """Runs of a label, as fields."""
    ends = [t for t in range(len(labels)) if t + 1 == len(labels) or labels[t + 1] != labels[t]]
    starts = [0, *(t + 1 for t in ends[:-1])]
    return {(start, end, labels[end]) for start, end in zip(starts, ends, strict=True)}


def f1_of(golds: Sequence[Sequence[str]], answers: Sequence[Sequence[str]]) -> float:
    pairs = [(spans_of(gold), spans_of(answer)) for gold, answer in zip(golds, answers, strict=True)]
    return 2 * sum(len(a & b) for a, b in pairs) / sum(len(a) + len(b) for a, b in pairs)


def best_of_all(problem: Problem, chosen: Sequence[int]) -> list[str]:
    """The best labelling under the chosen constraints, by enumeration."""

    def score(labels: tuple[int, ...]) -> float:
        found = problem.score(np.array(labels, np.int32))
        return found.local - float(found.penalties[list(chosen)].sum())

    return [
        LABELS.names[label] for label in max(product(range(3), repeat=problem.potentials.unary.shape[0]), key=score)
    ]


def test_the_gain_of_each_constraint_is_that_of_the_best_labellings_enumerated() -> None:
    """A soft rule, an agreement and a rule of runs, over random scores and random gold."""
    rng = np.random.default_rng(7)
    words = ["Ann", "rain", "1990", ",", "Bo"]
    model = ChanceModel({})
    documents = []
    for i in range(12):
        gold = [LABELS.names[k] for k in rng.integers(3, size=5)]
        documents.append(Document.build(f"d{i}", [rng.choice(words, 5).tolist()], labels=[gold]))
    sets = declared(
        lexicon("1990", ("date",), 1.3).model_copy(update={"name": "year"}),
        Consistent(weight=0.9, name="same words"),
        AtMostRuns(labels=("author", "title"), limit=1, weight=1.1, name="runs"),
    )
    report = check([Batch.of(documents)], sets, LABELS, model=model, decoder=Decoder.of("certify"))
    problems = []
    for document in documents:
        potentials = model.potentials(Batch.of([document]))
        problems.append(build_problem(document, potentials, LABELS, sets))
    golds = [document.labels.strings() for document in documents if document.labels is not None]
    every = [0, 1, 2]
    whole = [best_of_all(problem, every) for problem in problems]
    for chosen, effect in [
        ([], report.effect),
        *(([k for k in every if k != out], row(report, name).effect) for out, name in enumerate(sets.names)),
    ]:
        without = [best_of_all(problem, chosen) for problem in problems]
        assert effect is not None
        assert effect.documents == sum(a != b for a, b in zip(whole, without, strict=True))
        found = {one.measure: one for one in effect.figures}
        assert [found[name].figure for name in ("labels", "spans", "documents")] == ["accuracy", "f1", "accuracy"]
        assert found["spans"].before == pytest.approx(f1_of(golds, without))
        assert found["spans"].after == pytest.approx(f1_of(golds, whole))
        assert found["spans"].low <= found["spans"].after - found["spans"].before <= found["spans"].high
    assert report.effect is not None
    assert report.effect.documents > 3


def test_a_constraint_that_lowers_a_measure_is_warned_of() -> None:
    model = TableModel({"rain": [0.0, 2.0, 1.9], "1990": [0.0, 0.0, 0.5]})
    gold = [["title", "title", "date"]]
    documents = [Document.build(f"d{i}", [["rain", "rain", "1990"]], labels=gold) for i in range(30)]
    rule = AtMostRuns(labels=("title",), limit=1, weight=5.0, name="runs")
    wrong = lexicon("rain", ("date",), 3.0).model_copy(update={"name": "rain"})
    report = check([Batch.of(documents)], declared(rule, wrong), LABELS, model=model, decoder=Decoder.of("certify"))
    assert row(report, "runs").effect is not None
    assert row(report, "runs").warnings == ("always holds in the model's output: it changes nothing there",)
    assert any(
        warning.startswith("f1 of spans is 0.00% with it and 100.00% without it (-100.00 to")
        for warning in row(report, "rain").warnings
    )
    for less in ({"decoder": None}, {"model": None, "decoder": None}):
        given: dict[str, Any] = {"model": model, "decoder": Decoder.of("certify")} | less
        alone = check([Batch.of(documents)], declared(rule, wrong), LABELS, **given)
        assert alone.effect is None
        assert row(alone, "rain").effect is None


def test_the_same_conflict_in_more_documents_is_counted_and_not_searched_again() -> None:
    sets = declared(
        StartsWith(labels=("author",), weight=HARD, name="a"),
        ShouldBeTagged(position=0, labels=("title",), weight=HARD, name="b"),
    )
    conflicts = Conflicts(sets, LABELS, frozenset({"a", "b"}))
    for i in range(3):
        conflicts.look_at(Document.build(f"d{i}", [["x"]]))
    (conflict,) = conflicts.report()
    assert (conflict.documents, conflict.doc_id, conflict.hard, conflicts.searched) == (3, "d0", True, 3)


def test_explanation_shows_what_each_constraint_changed_and_cost() -> None:
    sets = declared(
        lexicon("1990", ("date",), 3.0).model_copy(update={"name": "year"}),
        StartsWith(labels=("author",), weight=0.5, name="start"),
        TokenFeature(tokens=TokenTest(words=(",",)), labels=("date",), weight=1.0, name="comma"),
    )
    one = batch().document(1)
    potentials = MODEL.potentials(Batch.of([one]))
    found = explain(one, LocalScores(potentials), sets, LABELS, decoder=Decoder.of("cpsat"))
    assert found.unconstrained == ("title", "author", "title")
    assert found.labels == ("title", "author", "date")
    assert found.gold == ("title", "author", "date")
    year, start, comma = found.effects
    assert [(c.position, c.token, c.without, c.label) for c in year.changes] == [(2, "1990", "title", "date")]
    assert (year.degree_before, year.degree, year.penalty) == (1.0, 0.0, 0.0)
    assert year.cost == pytest.approx(0.5)
    assert (start.changes, start.degree, start.penalty, start.cost) == ((), 1.0, 0.5, 0.0)
    assert (comma.degree_before, comma.degree, comma.changes) == (None, None, ())
    assert found.local - found.penalty == pytest.approx(4.0 - 0.5)


def test_what_two_constraints_change_together_neither_changes_alone() -> None:
    """Each says that the number is a date, so without one of them the other still says it."""
    both = declared(
        lexicon("1990", ("date",), 5.0).model_copy(update={"name": "one"}),
        lexicon("1990", ("date",), 6.0).model_copy(update={"name": "other"}),
    )
    one = batch().document(1)
    scores = LocalScores(MODEL.potentials(Batch.of([one])))
    found = explain(one, scores, both, LABELS, decoder=Decoder.of("cpsat"))
    assert [effect.changes for effect in found.effects] == [(), ()]
    assert [(c.position, c.without, c.label) for c in found.together] == [(2, "title", "date")]
    assert found.cost == pytest.approx(0.5)
    assert found.sentence == "labels that the constraints changed: 1990 title → date"
