"""Every template of TEMPLATES against its naive definition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from concord.schemas.document import Batch, Document
from concord.schemas.errors import DocumentError
from concord.schemas.potentials import Potentials
from concord.schemas.problem import Relation
from concord.testing.templates import TEMPLATE_CHECKS, Case, ground, has_antecedent, random_text
from concord.workers.constraints import constraint_set
from concord.workers.constraints.constraint_set import build_problem
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.rows import edges_in
from concord.workers.constraints.templates.order import Precedence, PresencePrecedence
from concord.workers.constraints.templates.presence import StartsWith
from concord.workers.constraints.templates.registry import TEMPLATES
from concord.workers.constraints.templates.repeats import Value, minutes, value_keys
from concord.workers.constraints.templates.template import MOST_ENTRIES, FeatureTemplate, Site, Template
from tests.support.made_templates import keys, template
from tests.support.naive_templates import BIO, CASES, PLAIN, Naive, Sentences

FEATURES = {"transition_feature", "token_feature"}


def test_every_template_has_a_case() -> None:
    assert set(CASES) | FEATURES == set(TEMPLATES)
    assert {n for n, t in TEMPLATES.items() if issubclass(t, FeatureTemplate)} == FEATURES


def cases_of(name: str) -> list[Case]:
    """Its cases, as authors of templates give theirs."""
    naive, for_bio, for_plain = CASES[name]
    pairs = [(BIO, fields) for fields in for_bio] + [(PLAIN, fields) for fields in for_plain]
    return [Case(keys(name, fields), labels, partial(counted, naive, fields)) for labels, fields in pairs]


def counted(naive: Naive, fields: dict[str, Any], text: Sentences) -> float:
    return naive(text, fields)


@pytest.mark.parametrize("check", TEMPLATE_CHECKS)
@pytest.mark.parametrize("name", CASES)
def test_every_template_keeps_each_promise(name: str, check: Callable[[type[Template], Sequence[Case]], None]) -> None:
    check(TEMPLATES[name], cases_of(name))


@pytest.mark.parametrize(
    ("name", "fields", "labels", "wanted"),
    [
        ("adjacency", {"first": "author", "second": "title"}, "author title author date", [1, 0, 1]),
        ("should_not_precede", {"first": "author", "second": "title"}, "author title author date", [1, 0, 1]),
        ("precedence", {"first": "author", "second": "date"}, "author title author date", [1, 0, 1, 0]),
        ("begin_end", {"begin": "author", "end": "date"}, "author title", [1]),
        ("begin_end", {"begin": "author", "end": "date"}, "title author", [0]),
        ("presence_precedence", {"first": "title", "second": "date"}, "title date title", [0, 1]),
        ("before", {"first": "author", "second": "title"}, "title title author title", [1, 0, 0, 1]),
        ("tag_implies_tag", {"label": "title", "implies": "date"}, "author author", [0]),
        ("tag_implies_tag", {"label": "title", "implies": "date"}, "author title", [1]),
        ("sequence_implies_sequence", {"label": "title", "implies": "date"}, "author author", [0]),
        ("sequence_implies_sequence", {"label": "title", "implies": "date"}, "author title", [1]),
        ("appears_once", {"labels": ["author", "title"]}, "title title", [0, 1]),
        ("appears_once_a_side", {"separators": "date", "labels": "author"}, "title date title", [0] * 7),
        ("appears_once_a_side", {"separators": "date", "labels": "author"}, "author author", [1, 0, 0, 0, 0]),
        (
            "appears_once_a_side",
            {"separators": "date", "labels": "author", "tokens": ["w1"]},
            "author date author",
            [0, 1, 1],
        ),
        (
            "appears_once_a_side",
            {"separators": "date", "labels": "author", "tokens": ["w1"]},
            "title date author",
            [0, 0, 1],
        ),
        ("at_most_runs", {"labels": "author", "limit": 2}, "title title", [0]),
        ("at_most_runs", {"labels": "author", "limit": 2}, "title author", [1]),
        ("at_least_runs", {"labels": "author", "limit": 2}, "title title", [1]),
        ("must_appear", {"labels": "author"}, "title title", [1]),
        ("starts_with", {"labels": "author"}, "title title", [1]),
        ("lexicon", {"words": ["w0"], "labels": "author"}, "title title", [1]),
        ("transition_on", {"tokens": ["w9"]}, "title title", [1]),
        ("changes_at", {"tokens": ["w0"]}, "title title", [1]),
        ("changes_at", {"tokens": ["w0"], "labels": "author"}, "title author", [0]),
        ("changes_at", {"tokens": ["w1"], "labels": "author", "side": "after"}, "title author", [1]),
        ("consistent_last_word", {"labels": "author", "words": ["same"]}, "title author author title", [0, 0, 1, 0]),
        ("linear", {"terms": [{"label": "author"}, {"label": "date", "coefficient": -1}]}, "date date", [0]),
        ("linear", {"terms": [{"label": "author"}, {"label": "date", "coefficient": -1}]}, "author date", [1]),
        ("linear", {"terms": [{"label": "author"}], "sense": ">=", "bound": 1}, "date date", [1]),
        ("linear", {"terms": [{"label": "author"}], "sense": "==", "bound": 1}, "date date", [0, 1]),
    ],
)
def test_antecedents_are_what_a_reader_would_say(
    name: str, fields: dict[str, Any], labels: str, wanted: list[int]
) -> None:
    words = [("same" if name == "consistent_last_word" else f"w{t}", label) for t, label in enumerate(labels.split())]
    assert has_antecedent(template(name, fields), [words], PLAIN).tolist() == list(map(bool, wanted))


def test_a_constraint_that_meets_no_token_has_no_rows() -> None:
    labels = ["author"]
    none_fit: dict[str, dict[str, Any]] = {
        "lexicon": {"words": ["nowhere"], "labels": labels},
        "only_in": {"tokens": ["nowhere"], "labels": labels},
        "should_be_tagged": {"position": 99, "labels": labels},
        "state_change": {"delimiters": ["nowhere"], "before": labels, "after": labels},
        "consistent_last_word": {"labels": labels, "words": ["nowhere"]},
    }
    text = [[("Smith", "author"), (",", "author")]]
    for name, fields in none_fit.items():
        problem, encoded = ground(template(name, fields), text, PLAIN)
        assert len(problem.rows) == 0
        assert problem.score(encoded).penalty == 0.0


def test_problems_of_a_batch_are_those_of_its_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constraint_set, "GROUND_TOKENS", 6)
    feature = TEMPLATES["token_feature"].model_validate({"tokens": [","], "labels": "O", "weight": 0.25})
    declared = DeclaredConstraints((feature, template("at_most_runs", {"labels": "PER", "limit": 1})))
    rng = np.random.default_rng(8)
    texts = [random_text(rng, BIO, shape) for shape in [(4, 1), (), (9,), (2,), (2, 2), ()]]
    batch = Batch.of([Document.build(f"d{i}", [[w for w, _ in s] for s in t]) for i, t in enumerate(texts)])
    local = Potentials(
        rng.normal(size=(batch.token_count, len(BIO))), rng.normal(size=(len(BIO),) * 2), batch.sentence_starts
    )
    problems = list(constraint_set.build_problems(batch, local, BIO, declared))
    for i, (document, problem) in enumerate(zip(batch, problems, strict=True)):
        own = local.part(int(batch.doc_starts[i]), int(batch.doc_starts[i + 1]))
        alone = build_problem(document, own, BIO, declared)
        np.testing.assert_array_equal(problem.potentials.unary, alone.potentials.unary)
        np.testing.assert_array_equal(problem.potentials.transition, alone.potentials.transition)
        np.testing.assert_array_equal(problem.potentials.sentence_starts, document.sentence_starts)
        np.testing.assert_array_equal(problem.rows.position, alone.rows.position)


def test_local_features_join_the_potentials() -> None:
    features = DeclaredConstraints(
        (
            TEMPLATES["transition_feature"].model_validate({"first": "author", "second": "title", "weight": -0.9}),
            TEMPLATES["token_feature"].model_validate({"tokens": [","], "labels": ["O", "date"], "weight": 0.25}),
            StartsWith(labels=("author",), weight=1.0),
        )
    )
    document = Document.build("d", [["Smith", ","], [",", "of"]])
    plain = Potentials(np.ones((4, 4)), np.ones((4, 4)), document.sentence_starts)
    problem = build_problem(document, plain, PLAIN, features)
    assert problem.constraint_names == ("starts_with(author)",)
    expected = np.ones((4, 4))
    expected[np.ix_([1, 2], [0, 3])] += 0.25
    np.testing.assert_array_equal(problem.potentials.unary, expected)
    transition = np.ones((4, 4))
    transition[1, 2] -= 0.9
    np.testing.assert_array_equal(problem.potentials.transition, transition)
    assert plain.unary.max() == 1.0


def test_agreements_by_words_share_one_key_table() -> None:
    declared = DeclaredConstraints((template("consistent", {}), template("consistent_subsequence", {})))
    document = Document.build("d", [["Smith", "of", "Smith"]])
    ((_, (exact, part)),) = declared.ground(Batch.of([document]), BIO)
    assert exact.key is part.key
    assert (exact.relation, part.relation) == (Relation.EXACT, Relation.CONTAINED)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3:30pm", 210),
        ("3.30p.m.", 210),
        ("3:30", 210),
        ("15:30", 210),
        ("12:00", 0),
        ("noon", 0),
        ("12noon", 0),
        ("9am", 540),
        ("9a.m", 540),
        ("9", None),
        ("3:75pm", None),
        ("monday", None),
        ("25:00", None),
    ],
)
def test_times(text: str, value: int | None) -> None:
    assert minutes(text) == value


def test_a_time_over_several_tokens_is_the_same_value() -> None:
    document = Document.build("d", [["3", ":", "30", "P.M", "."], ["3.30", "pm"]])
    keys = value_keys(Site(Batch.of([document]), BIO), Value.TIME)
    assert keys[0, 3] == keys[0, 4] == keys[5, 0] == keys[5, 1] == keys[0, 2]
    assert keys[5, 2] == -1
    assert keys[0, 0] != keys[0, 2]


def test_grounding_that_would_be_too_large_says_so() -> None:
    count = int((2 * MOST_ENTRIES) ** 0.5) + 10
    batch = Batch.of([Document.build("short", [["x"]]), Document.build("long", [["x"] * count])])
    declared = DeclaredConstraints((PresencePrecedence(first=("author",), second=("title",), weight=1.0),))
    with pytest.raises(DocumentError, match=r"'long'.*presence_precedence.*narrow the constraint"):
        declared.ground(batch, PLAIN)
    narrow = DeclaredConstraints((Precedence(first=("author",), second=("title",), reach=3, weight=1.0),))
    assert len(narrow.ground(batch, PLAIN)[1].rows.position) < 4 * count


def test_terms_of_one_edge_add_up() -> None:
    terms = [
        {"label": "author"},
        {"label": ["author", "title"], "coefficient": 2},
        {"label": "title", "coefficient": -2},
        {"label": "date", "previous": "author", "coefficient": 0.5},
    ]
    problem, _ = ground(template("linear", {"terms": terms}), [[("Smith", "O"), (",", "O")]], PLAIN)
    rows = problem.rows
    assert rows.pointer.tolist() == [0, 3]
    columns = (rows.position, rows.previous, rows.label, rows.coefficient)
    entries = zip(*(column.tolist() for column in columns), strict=True)
    assert set(entries) == {(0, -1, 1, 3.0), (1, -1, 1, 3.0), (1, 1, 3, 0.5)}


def test_a_label_after_every_other_is_one_entry() -> None:
    pairs = np.array([[True, False], [True, True]])
    part = edges_in(np.zeros(1, np.int64), np.ones(1, np.int64), pairs)
    assert list(zip(part.before, part.after, strict=True)) == [(-1, 0), (1, 1)]
