"""Constraint files and declared sets: every mistake told with its line, names, digests, joining."""

from __future__ import annotations

import json
import math
import pickle
import re
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concord.schemas.document import Batch, Document
from concord.schemas.labels import LabelSet, Scheme
from concord.workers.constraints.constraint_file import ConstraintFileError, load_constraints, parse_constraints
from concord.workers.constraints.declared import DeclaredConstraints, JoinedConstraints
from concord.workers.constraints.rows import ConstraintError
from concord.workers.constraints.templates.presence import MustAppear, StartsWith
from concord.workers.constraints.templates.template import TokenTest
from concord.workers.constraints.templates.words import Lexicon

LABELS = LabelSet(("author", "title", "date", "no", "3"), Scheme.PLAIN)
ROOT = Path(__file__).parents[1]
SHIPPED = ROOT / "infra" / "constraints"
PUBLISHED = ROOT / "concord" / "workers" / "published" / "tables" / "constraints"

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
        ("- template: must_appear\n    labels: a\n    weight: 1e309", 4, ["weight", "largest weight", "'hard'"]),
        ("- template: must_appear\n    labels: a\n    weight: 1e308", 4, ["weight", "1,000,000 nats"]),
        ("- template: token_feature\n    weight: -1e7\n    tokens: a\n    labels: a", 3, ["weight", "-1000000"]),
        ("- template: linear\n    weight: 1\n    bound: 1e308\n    terms:\n      - {label: a}", 4, ["bound"]),
        ("- template: linear\n    weight: 1\n    terms:\n      - {label: a, coefficient: 1e20}", 5, ["coefficient"]),
        (
            f"- template: before\n    first: a\n    {'x' * 500}: b\n    weight: 1",
            4,
            ["unknown key 'xxx", "…; there are"],
        ),
        (
            "- template: precedence\n    first: a\n    second: b\n    weight: 1\n    reach: 100000000000000000000",
            6,
            ["reach"],
        ),
        ("- template: at_most_runs\n    labels: a\n    weight: 1\n    limit: 1e999", 5, ["limit"]),
        (
            "- template: only_in\n    labels: a\n    weight: 1\n    tokens: {pattern: '(?=a)b'}",
            5,
            ["'(?=a)b'", "linear"],
        ),
        ("- template: must_appear\n    ? [labels]\n    : a\n    weight: 1", 3, ["a key is a plain name"]),
        ('- template: must_appear\n    labels: "\\0"\n    weight: 1', 3, ["holds a character that is no text"]),
        ('- template: must_appear\n    labels: "\\ud800"\n    weight: 1', 3, ["holds a character that is no text"]),
        ('- template: must_appear\n    labels: a\n    weight: "one\\ntwo"', 4, ["(given: 'one\\ntwo')"]),
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
        ("constraints:\n  - a: b\nconstraints:\n  - c: d\n", 3, "'constraints' is there twice"),
        ("? [constraints]\n: []\n", 1, "a key is a plain name"),
        ("constraints:\n  - a\0b\n", 2, "character"),
        ("constraints:\n  - &a [*a]\n", 2, "an alias inside of what it stands for"),
        ("constraints:\n  - &a {template: *a}\n", 2, "an alias inside of what it stands for"),
        ("constraints: " + "[" * 20_000, 1, "brackets inside brackets"),
        ("constraints:\n  - a\n---\nconstraints: []\n", 3, "not YAML"),
        ("constraints: [x, *nobody]\n", 1, "not YAML"),
    ],
)
def test_a_file_of_another_form(text: str, line: int, part: str) -> None:
    (found,) = problems(text)
    assert found.startswith(f"c.yaml:{line}: ")
    assert part in found


def test_aliases_that_grow_without_end_are_refused_at_once() -> None:
    rows = [f"  - &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    text = "constraints:\n  - &a0 [x, x, x, x, x, x, x, x, x]\n" + "\n".join(rows) + "\n"
    started = time.process_time()
    found = problems(text)
    assert any("aliases stand for more than 10,000 values; write them out" in line for line in found)
    assert time.process_time() - started < 2.0


def test_aliases_may_be_used() -> None:
    text = (
        "constraints:\n  - {template: must_appear, labels: &who [author, editor], weight: 1}\n"
        "  - {template: starts_with, labels: *who, weight: .inf}\n"
    )
    first, second = parse_constraints(text, file="c.yaml").templates
    assert isinstance(first, MustAppear)
    assert isinstance(second, StartsWith)
    assert (first.labels, second.labels, second.weight) == (("author", "editor"), ("author", "editor"), math.inf)


@pytest.mark.parametrize(
    ("data", "line", "part"),
    [
        ("constraints:\n  - template: g\xfcnther\n".encode("latin-1"), 2, "not UTF-8 (byte 28 of the file)"),
        (b"\xff\xfec\0o\0", 1, "not UTF-8"),
        (b"#" * 10_000_001, 1, "more than 10,000,000 bytes"),
    ],
    ids=["latin-1", "utf-16", "large"],
)
def test_a_file_that_is_no_text_is_named(tmp_path: Path, data: bytes, line: int, part: str) -> None:
    (tmp_path / "c.yaml").write_bytes(data)
    with pytest.raises(ConstraintFileError) as caught:
        load_constraints(tmp_path / "c.yaml")
    assert str(caught.value).startswith(f"{tmp_path}/c.yaml:{line}: ")
    assert part in str(caught.value)


SHIPPED_LINES = (SHIPPED / "citations.yaml").read_text().splitlines() + (SHIPPED / "news.yaml").read_text().splitlines()
ODD = [
    "constraints:",
    "  - ",
    "- template: linear",
    "? [a]",
    "&a [*a]",
    "*a",
    "{",
    "}",
    "[",
    "]",
    "!!python/object:os.system x",
]
ODD += [
    "weight: 1e309",
    "weight: .nan",
    "reach: 100000000000000000000",
    "    labels: {a: b}",
    "'",
    '"',
    "\0",
    "\ud800",
    "\t",
    "---",
    "|",
    ">",
]


@settings(max_examples=400)
@given(st.lists(st.one_of(st.sampled_from(SHIPPED_LINES), st.sampled_from(ODD), st.text(max_size=8)), max_size=14))
def test_any_text_is_constraints_or_lines_that_name_file_and_line(lines: list[str]) -> None:
    try:
        parse_constraints("\n".join(["constraints:", *lines]), file="c.yaml")
    except ConstraintError as error:
        found = str(error).split("\n")
        wrong = [line for line in found if not re.match(r"c\.yaml:\d+: ", line)]
        if wrong:
            raise AssertionError(wrong) from error


def test_an_unknown_label_names_file_line_entry_and_the_nearest() -> None:
    entry = "first: Titel\n    second:\n      - author\n      - dat\n    weight: 1\n"
    text = "constraints:\n  - template: before\n    " + entry
    with pytest.raises(ConstraintError) as error:
        parse_constraints(text, file="c.yaml").bind(LABELS)
    assert str(error.value).splitlines() == [
        "c.yaml:3: constraint 1 (before): unknown label 'Titel'; did you mean 'title'?",
        "c.yaml:6: constraint 1 (before): unknown label 'dat'; did you mean 'date'?",
    ]


def test_a_field_that_is_its_own_separator_is_refused() -> None:
    entry = "separators: [date, title]\n    labels:\n      - author\n      - date\n    weight: 1\n"
    text = "constraints:\n  - template: appears_once_a_side\n    " + entry
    with pytest.raises(ConstraintError, match=r"c\.yaml:6: .*'date' is a separator too"):
        parse_constraints(text, file="c.yaml").bind(LABELS)


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


@pytest.mark.parametrize("name", ["citations", "seminars"])
def test_a_shipped_rule_of_a_published_table_is_as_it_is_there(name: str) -> None:
    """Those that lower the measure of their users are left out: `benchmarks/bench_shipped.py`."""
    shipped, published = (load_constraints(folder / f"{name}.yaml") for folder in (SHIPPED, PUBLISHED))
    assert 0 < len(shipped.templates) < len(published.templates)
    assert all(template in published.templates for template in shipped.templates)


def test_what_is_shipped_has_been_judged_and_loses_nothing() -> None:
    """By field F1 on documents that neither model nor weights have seen, all rules together and each of them."""
    kept = json.loads((ROOT / "benchmarks" / "results" / "shipped.json").read_text())["sets"]
    assert {path.stem for path in SHIPPED.glob("*.yaml")} == kept.keys()
    for name, rows in kept.items():
        names = list(load_constraints(SHIPPED / f"{name}.yaml").names)
        for row in rows:
            if row["rules"] == "shipped":
                assert list(row["each"]) == names, name
                for effect in (row["all"], *row["each"].values()):
                    assert effect["spans"]["high"] >= 0, f"{name}, {row['part']}"


def test_shipped_files_load_and_bind() -> None:
    citations = load_constraints(SHIPPED / "citations.yaml").bind(LabelSet(CITATION_FIELDS, Scheme.PLAIN))
    assert len(citations.names) >= 5
    news = load_constraints(SHIPPED / "news.yaml").bind(LabelSet.bio(["PER", "LOC", "ORG", "MISC"]))
    assert news.names == ("part of a longer name", "a name that is overlooked elsewhere")
