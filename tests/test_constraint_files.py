"""Constraint files and declared sets: every mistake told with its line, names, digests, joining."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from schemas.document import Batch, Document
from schemas.labels import LabelSet, Scheme
from workers.constraints.constraint_file import ConstraintFileError, load_constraints, parse_constraints
from workers.constraints.declared import DeclaredConstraints, JoinedConstraints
from workers.constraints.presence import MustAppear, StartsWith
from workers.constraints.rows import ConstraintError
from workers.constraints.template import TokenTest
from workers.constraints.words import Lexicon

LABELS = LabelSet(("author", "title", "date", "no", "3"), Scheme.PLAIN)
SHIPPED = Path(__file__).parents[1] / "infra" / "constraints"

NAMES = ("author", "booktitle", "date", "editor", "institution", "journal", "location")
CITATION_FIELDS = (*NAMES, "note", "pages", "publisher", "tech", "title", "volume")


def problems(text: str) -> list[str]:
    with pytest.raises(ConstraintFileError) as error:
        parse_constraints(text, file="c.yaml")
    return str(error.value).splitlines()


def test_a_good_file_reads_what_it_says() -> None:
    declared = parse_constraints(
        """
constraints:
  - template: starts_with
    labels: author
    weight: hard
  - template: lexicon
    name: numbers
    words: [3:30, no, 7]
    labels: [no, 3]
    weight: 0.5
  - template: token_feature
    tokens: {pattern: '\\d+', ignore_case: false}
    labels: date
    weight: -1.5
""",
        file="c.yaml",
    ).bind(LABELS)
    assert declared.names == ("starts_with(author)", "numbers")
    assert declared.titles == ("starts_with(author)", "numbers", "token_feature(date)")
    start, lexicon, _ = declared.templates
    assert isinstance(start, StartsWith)
    assert start.weight == np.inf
    assert isinstance(lexicon, Lexicon)
    assert (lexicon.words.words, lexicon.labels, lexicon.weight) == (("3:30", "no", "7"), ("no", "3"), 0.5)


@pytest.mark.parametrize(
    ("entry", "line", "parts"),
    [
        ("- template: lexikon", 2, ["constraint 1 (?)", "unknown template 'lexikon'; did you mean 'lexicon'?"]),
        ("- template: before\n    frist: a\n    second: b\n    weight: 1", 3, ["unknown key 'frist'", "'first'"]),
        ("- template: must_appear\n    labels: a", 2, ["constraint 1 (must_appear)", "key 'weight' is missing"]),
        ("- template: must_appear\n    labels: a\n    weight: -2", 4, ["weight", "never below zero", "given: -2"]),
        ("- template: must_appear\n    labels: a\n    weight: nan", 4, ["weight", "given: nan"]),
        ("- template: must_appear\n    labels: a\n    weight: strong", 4, ["'hard' or a number", "given: strong"]),
        ("- template: must_appear\n    labels: []\n    weight: 1", 3, ["labels", "at least 1"]),
        ("- template: only_in\n    labels: a\n    weight: 1\n    tokens: {pattern: '('}", 5, ["regular expression"]),
        ("- template: only_in\n    labels: a\n    weight: 1\n    tokens: {column: pos}", 5, ["give words, a pattern"]),
        ("- template: precedence\n    first: a\n    second: b\n    weight: 1\n    reach: 0", 6, ["reach", "given: 0"]),
        ("- template: precedence\n    first: a\n    second: b\n    weight: 1\n    scope: page", 6, ["scope", "page"]),
        ("- template: should_be_tagged\n    labels: a\n    weight: 1", 2, ["either a position or tokens"]),
        ("- template: linear\n    weight: 1\n    terms:\n      - {label: a}\n      - {lable: b}", 6, ["'label'?"]),
        ("- template: linear\n    weight: 1\n    terms:\n      - {label: a, offset: 1}", 2, ["each: token"]),
        ("- template: token_feature\n    weight: inf\n    tokens: a\n    labels: a", 3, ["finite"]),
        ("- template: must_appear\n    labels: a\n    labels: b", 4, ["'labels' twice"]),
        ("- must_appear", 2, ["want 'template:'"]),
        ("- template: [a]", 2, ["want 'template:'"]),
    ],
)
def test_a_mistake_names_its_line_and_the_right_word(entry: str, line: int, parts: list[str]) -> None:
    found = problems("constraints:\n  " + entry + "\n")
    assert any(p.startswith(f"c.yaml:{line}: ") and all(part in p for part in parts) for p in found), found


def test_all_mistakes_are_told_at_once() -> None:
    found = problems("constraints:\n  - template: lexikon\n  - template: must_appear\n    label: a\n")
    assert [p.split(": ")[0] for p in found] == ["c.yaml:2", "c.yaml:3", "c.yaml:3", "c.yaml:4"]


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("", 1, "empty"),
        ("- a\n", 1, "want a list under 'constraints'"),
        ("constraint:\n  - a\n", 1, "did you mean 'constraints'?"),
        ("\nconstraints: 3\n", 2, "no list"),
        ("constraints:\n  - {a: [}\n", 2, "not YAML"),
    ],
)
def test_a_file_of_another_form(text: str, line: int, part: str) -> None:
    (found,) = problems(text)
    assert found.startswith(f"c.yaml:{line}: ")
    assert part in found


def test_an_unknown_label_names_file_line_entry_and_the_nearest() -> None:
    entry = "first: Titel\n    second:\n      - author\n      - dat\n    weight: 1\n"
    text = "constraints:\n  - template: before\n    " + entry
    with pytest.raises(ConstraintError) as error:
        parse_constraints(text, file="c.yaml").bind(LABELS)
    assert str(error.value).splitlines() == [
        "c.yaml:3: constraint 1 (before): unknown label 'Titel'; did you mean 'title'?",
        "c.yaml:6: constraint 1 (before): unknown label 'dat'; did you mean 'date'?",
    ]


def test_an_agreement_names_types_and_not_labels() -> None:
    text = "constraints:\n  - template: consistent\n    labels: B-PER\n    weight: 1\n"
    with pytest.raises(ConstraintError, match=r"c\.yaml:3: .*unknown span type 'B-PER'"):
        parse_constraints(text, file="c.yaml").bind(LabelSet.bio(["PER", "ORG"]))
    parse_constraints(text.replace("B-PER", "PER"), file="c.yaml").bind(LabelSet.bio(["PER", "ORG"]))


def test_made_names_are_unique_and_do_not_depend_on_the_neighbours() -> None:
    first = Lexicon(words=TokenTest(words=("a",)), labels=("title",), weight=1.0)
    second = Lexicon(words=TokenTest(words=("b",)), labels=("title",), weight=1.0)
    other = MustAppear(labels=("date",), weight=2.0)
    names = DeclaredConstraints((first, second, other)).names
    assert len(set(names)) == 3
    assert set(DeclaredConstraints((second, other, first)).names) == set(names)
    assert names[2] == "must_appear(date)"


def test_the_same_entry_or_name_twice_is_an_error() -> None:
    one = MustAppear(labels=("date",), weight=2.0)
    with pytest.raises(ConstraintError, match=r"constraint 2 .*the same as constraint 1"):
        DeclaredConstraints((one, one))
    named = [MustAppear(labels=(label,), weight=1.0, name="x") for label in ("date", "title")]
    with pytest.raises(ConstraintError, match="'x'"):
        DeclaredConstraints(tuple(named))


def test_digest_sees_content_and_not_layout() -> None:
    text = "constraints:\n  - template: must_appear\n    labels: date\n    weight: 2\n"
    same = "constraints: [{weight: '2.0', labels: [date], template: must_appear}]\n"
    digests = [parse_constraints(t, file=f).digest for t, f in ((text, "a"), (same, "b"))]
    assert digests[0] == digests[1]
    assert digests[0] == DeclaredConstraints((MustAppear(labels=("date",), weight=2.0),)).digest
    for change in (("weight: 2", "weight: 3"), ("date", "title"), ("labels", "scope: sentence\n    labels")):
        assert parse_constraints(text.replace(*change), file="a").digest != digests[0]


def test_with_and_without_an_entry_keep_names() -> None:
    words = [Lexicon(words=TokenTest(words=(w,)), labels=("title",), weight=1.0) for w in "ab"]
    declared = DeclaredConstraints(tuple(words))
    assert declared.without(declared.names[0]).names == declared.names[1:]
    with pytest.raises(KeyError, match="no constraint 'x'"):
        declared.without("x")


def test_joined_sets_number_their_constraints_on() -> None:
    first = DeclaredConstraints((StartsWith(labels=("author",), weight=1.0), MustAppear(labels=("date",), weight=2.0)))
    second = DeclaredConstraints((MustAppear(labels=("title",), weight=4.0),))
    joined = JoinedConstraints((first, second))
    ((rows, _),) = joined.ground(Batch.of([Document.build("d", [["a", "b"]])]), LABELS)
    assert joined.names == first.names + second.names
    assert rows.constraint.tolist() == [0, 1, 2]
    assert rows.weight.tolist() == [1.0, 2.0, 4.0]
    assert joined.digest != JoinedConstraints((second, first)).digest
    with pytest.raises(ConstraintError, match="several sets"):
        JoinedConstraints((first, first))


def test_an_error_while_grounding_names_entry_and_document() -> None:
    text = (
        "constraints:\n  - template: only_in\n    tokens: {words: NN, column: pos}\n    labels: date\n    weight: 1\n"
    )
    declared = parse_constraints(text, file="c.yaml")
    with pytest.raises(ConstraintError, match=r"c\.yaml:2: constraint 1 .*document 'd': .*no column 'pos'"):
        declared.ground(Batch.of([Document.build("d", [["a"]])]), LABELS)


def test_a_set_survives_pickling() -> None:
    declared = load_constraints(SHIPPED / "citations.yaml")
    again = pickle.loads(pickle.dumps(declared))
    assert (again.digest, again.names) == (declared.digest, declared.names)


def test_shipped_files_load_and_bind() -> None:
    citations = load_constraints(SHIPPED / "citations.yaml").bind(LabelSet(CITATION_FIELDS, Scheme.PLAIN))
    assert len(citations.names) >= 10
    news = load_constraints(SHIPPED / "news.yaml").bind(LabelSet.bio(["PER", "LOC", "ORG", "MISC"]))
    overlooked = "a name that is overlooked elsewhere"
    assert news.names == ("same words", "part of a longer name", overlooked, "legality")
