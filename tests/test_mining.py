"""Mined rules against plain loops, planted rules, and corpora in which there are none."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import concord.flows.commands.mining
from concord.flows.cli.app import app
from concord.flows.cli.failures import Exit
from concord.schemas.document import Batch, Document
from concord.schemas.labels import OUTSIDE, LabelSet, Scheme
from concord.workers.constraints.constraint_file import load_constraints
from concord.workers.constraints.templates.template import levels
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.learning.mining.registry import MINERS
from concord.workers.learning.mining.rule_counts import RuleCounts, RuleKind, order_verdicts
from concord.workers.learning.mining.rules import (
    DEALT,
    MiningSettings,
    Rule,
    by_two,
    candidates,
    declared,
    implies,
    in_documents,
    kept_of,
    significant,
)
from concord.workers.learning.mining.run_order import Runs
from concord.workers.learning.weights.penalties import COUNTED_PENALTY
from concord.workers.synthesis.made_up import synthesize
from tests.support.in_process import Here
from tests.support.made_sequences import (
    ANY,
    ANY_BIO,
    ANY_NESTED,
    BIO,
    NESTED,
    PLAIN,
    plain_runs,
    plainly,
    shuffled_corpus,
    spelled,
)

FEW = 3


def mined(counts: RuleCounts, labels: LabelSet, settings: MiningSettings) -> list[Rule]:
    return kept_of(significant(candidates(counts, labels), settings), settings)


def counted(documents: Sequence[Document], labels: LabelSet, *, seed: int = 0, orders: int = FEW) -> RuleCounts:
    return RuleCounts.of(Batch.of(list(documents)), labels, orders=orders, seed=seed)


def is_in(kind: str, field: str) -> bool:
    """Is a run of this type one of the field, which may be a level?"""
    level = field[:-2]
    return kind == field or (field.endswith("/*") and (kind == level or kind.startswith(level + "/")))


def naive(documents: Sequence[Document], labels: LabelSet) -> dict[tuple[str, ...], tuple[int, int]]:
    """(n, broken) of every rule but those about places of change, by loops."""
    found: Counter[tuple[str, str, str, bool]] = Counter()
    names, scheme = [*labels.types, *levels(labels), OUTSIDE], labels.scheme
    for document in documents:
        sentences = [[kind for kind, _ in sentence] for sentence in plain_runs(document, scheme)]
        runs = [kind for sentence in sentences for kind in sentence]
        edges = [(x, y) for s in sentences for x, y in itertools.pairwise(s)]
        for a in names:
            own = [is_in(kind, a) for kind in runs]
            found["starts", a, "", bool(runs) and own[0]] += bool(runs)
            found["ends", a, "", bool(runs) and own[-1]] += bool(runs)
            found["there", a, "", any(own)] += bool(runs)
            after = [y for x, y in edges if is_in(x, a) and not is_in(y, a)]
            if any(own):
                found["once", a, "", sum(own) == 1] += 1
                gaps = [
                    y for s in sentences for x, y in itertools.pairwise(["", *s]) if is_in(y, a) and not is_in(x, a)
                ]
                found["together", a, "", len(gaps) == 1] += 1
            for b in names:
                other = [is_in(kind, b) for kind in runs]
                found["either", a, b, any(own) or any(other)] += bool(runs)
                if any(own) or any(other):
                    found["one-of", a, b, sum(own) + sum(other) == 1] += 1
                if any(own):
                    found["needs", a, b, any(other)] += 1
                    found["matched", a, b, sum(other) >= sum(own)] += 1
                if after:
                    found["followed", a, b, all(is_in(y, b) for y in after)] += 1
                if after and any(other):
                    found["apart", a, b, not any(is_in(y, b) for y in after)] += 1
                if any(own) and any(other):
                    found["order", a, b, not any(other[: max(i for i, one in enumerate(own) if one)])] += 1
    keys = {key[:3] for key in found}
    return {key: (found[*key, True] + found[*key, False], found[*key, False]) for key in keys}


@given(ANY)
@settings(max_examples=60, deadline=None)
def test_counts_are_those_of_plain_loops(found: tuple[list[Document], LabelSet]) -> None:
    documents, labels = found
    rules = candidates(counted(documents, labels), labels)
    wanted = naive(documents, labels)
    of_tables = [rule for rule in rules if rule.kind not in (RuleKind.CHANGES, RuleKind.STOPS, RuleKind.CHOICE)]
    for rule in of_tables:
        assert wanted[rule.kind, rule.first, rule.second] == (rule.n, rule.broken)
    assert all(0.0 <= rule.chance <= 1.0 for rule in rules)
    said = {(rule.kind, rule.first, rule.second) for rule in of_tables}
    assert len(said) == len(of_tables)
    for (kind, a, b), (n, _) in wanted.items():
        speaks = a != b and a in labels.types and b in ("", *labels.types)
        speaks &= kind != "together" and (kind not in ("either", "one-of") or a < b)
        assert not speaks or n == 0 or (RuleKind(kind), a, b) in said


@given(ANY)
@settings(max_examples=60, deadline=None)
def test_the_template_breaks_where_the_rule_does(found: tuple[list[Document], LabelSet]) -> None:
    documents, labels = found
    rules = candidates(counted(documents, labels), labels)
    if not rules:
        return
    constraints = declared(rules, labels)
    broken: Counter[str] = Counter()
    for document in documents:
        assert document.labels is not None
        gold = labels.encode(document.labels.strings())
        (ground,) = constraints.ground(Batch.of([document]), labels)
        bad = ground.rows.degree(gold) > 0
        broken.update({constraints.names[i] for i in np.unique(ground.rows.constraint[bad]).tolist()})
    assert {rule.name: rule.broken for rule in rules if rule.broken} == dict(broken)


@given(ANY_NESTED)
@settings(max_examples=20, deadline=None)
def test_what_is_implied_holds_where_the_others_do(documents: list[Document]) -> None:
    rules = candidates(counted(documents, NESTED, orders=1), NESTED)
    constraints = declared(rules, NESTED)
    for document in documents:
        assert document.labels is not None
        gold = NESTED.encode(document.labels.strings())
        (ground,) = constraints.ground(Batch.of([document]), NESTED)
        bad = ground.rows.degree(gold) > 0
        broken = {constraints.names[i] for i in np.unique(ground.rows.constraint[bad]).tolist()}
        kept = [rule for rule in rules if rule.name not in broken]
        for rule in rules:
            assert rule.name not in broken or not any(implies(one, rule) for one in kept)
            assert rule.name not in broken or not by_two(rule, kept)


def test_marks_that_runs_stop_at_are_counted_by_hand() -> None:
    """In the first document both commas of a end its run, by chance one time in six; in the second one does not."""
    first = Document.build("1", [list("w,w,ww")], labels=[["B-a", "I-a", "B-a", "I-a", "B-b", "I-b"]])
    second = Document.build("2", [list(",ww")], labels=[["B-a", "I-a", "I-a"]])
    rules = {rule.name: rule for rule in candidates(counted([first, second], BIO), BIO)}
    rule = rules["a stops at ,, before the change"]
    assert (rule.n, rule.broken) == (2, 1)
    assert rule.chance == pytest.approx((1 / 6 + 0.0) / 2)
    anywhere = rules["any run stops at ,, before the change"]
    assert (anywhere.n, anywhere.broken) == (2, 1)
    assert anywhere.chance == pytest.approx(1 / 10 / 2)
    assert rules["a stops at ,, after the change"].broken == 1


def test_two_that_follow_are_counted_by_hand() -> None:
    documents = [
        Document.build(str(i), [["w"] * len(runs)], labels=[[f"B-{x}" for x in runs]])
        for i, runs in enumerate(["abac", "ab", "ac", "abcaab", "bc", "aba"])
    ]
    rules = {rule.name: rule for rule in candidates(counted(documents, BIO), BIO)}
    rule = rules["a is followed by b or c"]
    assert (rule.n, rule.broken) == (5, 0)
    assert "b is followed by a or c" in rules


@given(ANY_BIO, st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_sharding_does_not_matter(documents: list[Document], at: int) -> None:
    whole = counted(documents, BIO)
    parts = [counted(part, BIO) for part in (documents[at:], documents[:at])]
    merged = RuleCounts.merge([*parts, RuleCounts.merge([])])
    assert {k: v.tolist() for k, v in whole.tables.items()} == {k: v.tolist() for k, v in merged.tables.items()}
    assert {k: v.tolist() for k, v in whole.marks.items()} == {k: v.tolist() for k, v in merged.marks.items()}
    assert {k: v.tolist() for k, v in whole.sizes.items()} == {k: v.tolist() for k, v in merged.sizes.items()}
    assert candidates(whole, BIO) == candidates(merged, BIO)


def test_planted_rules_are_found() -> None:
    rng = np.random.default_rng(3)
    documents = []
    for i in range(80):
        middle = rng.permutation(list("bc") + list("de")[: rng.integers(3)]).tolist()
        documents.append(spelled(str(i), ["a", *middle, "f"] if i % 10 else ["b", "a", "c", "f"], rng))
    labels = LabelSet.bio("abcdef")
    found = {rule.name: rule for rule in mined(counted(documents, labels, orders=32), labels, MiningSettings())}
    assert {"starts with a", "ends with f", "one a", "changes at punctuation, before"} <= set(found)
    assert (found["starts with a"].n, found["starts with a"].broken) == (80, 8)
    assert "changes at punctuation, either" not in found, "the surer half says it too"
    assert "b all before c" not in found
    text = "\n".join(found)
    assert not re.search(r"[cde] is followed by [cde]", text)


def test_planted_rules_about_levels_marks_and_pairs_are_found() -> None:
    """Fields b/c and b/d stand together after a, as many of either; a ends at its mark; e or f comes last, once."""
    rng, documents = np.random.default_rng(4), []
    for i in range(80):
        pairs = [kind for _ in range(rng.integers(1, 3)) for kind in rng.permutation(["b/c", "b/d"]).tolist()]
        runs = ["a", *pairs, "ef"[rng.integers(2)]]
        document = spelled(str(i), runs if i % 2 else [*runs[::-1]], rng, mark=False)
        assert document.labels is not None
        names = document.labels.strings()
        words = [
            "." if name.endswith("-a") and after != "I-a" else str(rng.choice(["w", ","]))
            for name, after in zip(names, [*names[1:], ""], strict=True)
        ]
        documents.append(Document.build(str(i), [words], labels=[names]))
    labels = LabelSet.bio(["a", "b/c", "b/d", "e", "f"])
    found = {rule.name for rule in mined(counted(documents, labels, orders=32), labels, MiningSettings())}
    assert {"b/* together", "as many b/c as b/d", "as many b/d as b/c", "a e or a f", "one e or f"} <= found
    assert "any run stops at ., before the change" in found
    assert not any("stops at ,," in name for name in found)


OF_ORDER = tuple(kind for kind in RuleKind if kind not in DEALT)


@pytest.mark.parametrize(
    ("labels", "kinds"),
    [(PLAIN, OF_ORDER), (NESTED, tuple(RuleKind))],
    ids=["plain", "nested"],
)
def test_shuffled_corpora_give_no_more_than_the_stated_rate(labels: LabelSet, kinds: tuple[RuleKind, ...]) -> None:
    """Of 100 corpora in which nothing holds but by chance at most 5 may show a rule, however rarely it holds."""
    chosen, found = MiningSettings(held=0.0, kinds=kinds), 0
    for seed in range(100):
        documents = shuffled_corpus(seed, 20, labels.types)
        counts = counted([plainly(d) for d in documents] if labels is PLAIN else documents, labels, orders=4)
        found += bool(significant(candidates(counts, labels), chosen))
    assert found <= 5


def test_every_order_without_merged_runs_is_as_likely() -> None:
    """The exact shares of a b a c in plain labels, where two runs of a may not meet."""
    document = Document.build("x", [["w"] * 4], labels=[["a", "b", "a", "c"]])
    batch = Batch.of([document])
    runs = Runs.of(batch, PLAIN.encode(["a", "b", "a", "c"]), PLAIN)
    orders = Counter(tuple(types.tolist()) for types in runs.shuffled(1200, 1))
    allowed = {o for o in itertools.permutations((0, 1, 0, 2)) if all(x != y for x, y in itertools.pairwise(o))}
    assert set(orders) == allowed
    assert all(count == pytest.approx(1200 / len(allowed), rel=0.25) for count in orders.values())
    starts = order_verdicts(runs, runs.types, runs.kinds)[RuleKind.STARTS][1]
    assert starts.tolist() == [[True, False, False, False]]


def test_what_the_label_scheme_forces_is_no_rule() -> None:
    """With two plain labels what follows one is the other, in any order."""
    labels = LabelSet(("a", "b"), Scheme.PLAIN)
    documents = [
        Document.build(f"{i}", [["w"] * 4], labels=[list("abab") if i % 2 else list("baba")]) for i in range(60)
    ]
    rules = {r.name: r for r in candidates(counted(documents, labels, orders=16), labels)}
    assert rules["a is followed by b"].broken == 0
    assert rules["a is followed by b"].chance == 1.0
    kept = {rule.kind for rule in mined(counted(documents, labels, orders=16), labels, MiningSettings())}
    assert not kept & {RuleKind.FOLLOWED, RuleKind.APART, RuleKind.STARTS, RuleKind.ENDS}


def test_what_implies_what() -> None:
    there, needs = Rule(RuleKind.THERE, "b", "", 100, 1, 0.5), Rule(RuleKind.NEEDS, "a", "b", 50, 0, 0.5)
    assert implies(there, needs)
    assert not implies(needs, there)


def test_an_implied_rule_stays_where_it_is_plainly_surer() -> None:
    """Nine of ten documents change labels before a mark only, all beside one."""
    rng = np.random.default_rng(5)
    documents = [spelled(str(i), "abcabc", rng) for i in range(300)]
    labels = LabelSet.bio("abc")
    odd = [Document.build(f"x{i}", [["w", "w", ",", "w"]], labels=[["B-a", "I-a", "B-b", "I-b"]]) for i in range(30)]
    chosen = MiningSettings(kinds=(RuleKind.CHANGES,))
    sides = {r.first: r.broken for r in mined(counted(documents + odd, labels), labels, chosen)}
    assert sides == {"before": 30, "either": 0}
    assert [r.first for r in mined(counted(documents, labels), labels, chosen)] == ["before"]


@pytest.mark.parametrize("penalty", COUNTED_PENALTY)
def test_weights_are_those_of_documents(penalty: str) -> None:
    rows = in_documents(Rule(RuleKind.ONCE, "a", "", 40, 4, 0.5), 8.0)
    cost = COUNTED_PENALTY[penalty]
    assert rows.weight(cost, cost.settings()) == cost.nats(40, 4, cost.settings()) / 2.0


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Citations in three shards, counted in this process."""
    monkeypatch.setattr(concord.flows.commands.mining, "cluster", lambda *_, **__: nullcontext(Here(None)))
    documents = list(synthesize(60, seed=4, kind="citations"))
    for i in range(3):
        write_corpus(documents[20 * i : 20 * (i + 1)], tmp_path / "corpus" / str(i), source="test")
    return tmp_path / "corpus"


def run(*words: str | Path, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["constraints", *map(str, words)])
    assert done.exit_code == code, done.output
    return done.stdout if "--json" in words else done.output


def test_the_file_loads_checks_and_says_why(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "mined.yaml"
    said = run("mine", "--all", "--corpus", corpus, "--out", out)
    constraints = load_constraints(out)
    assert "one title" in constraints.titles
    every = len(constraints.titles)
    assert f"{every} of {every} rules that hold in" in said.replace("\n", " ")
    text = out.read_text()
    assert text.count("  # binds in ") == len(constraints.titles)
    one = tmp_path / "one"
    write_corpus(list(synthesize(60, seed=4, kind="citations")), one, source="test")
    run("mine", "--all", "--corpus", one, "--out", tmp_path / "again.yaml")
    assert (tmp_path / "again.yaml").read_text() == text, "one shard or three"
    checked = json.loads(run("check", out, "--corpus", one, "--conflicts", "0", "--json"))
    assert {row["name"]: row["gold"]["documents"] for row in checked["constraints"]} == {
        row["name"]: row["broken"]
        for row in json.loads(run("mine", "--all", "--corpus", corpus, "--out", out, "--json"))["rules"]
    }


def test_where_nothing_is_found_the_list_is_empty(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "mined.yaml"
    said = run("mine", "--all", "--corpus", corpus, "--out", out, "--set", "support=1000")
    assert "no rule was found: the list in" in said
    assert load_constraints(out).templates == ()
    run("check", out, "--corpus", corpus)


@pytest.mark.parametrize("method", MINERS)
def test_where_there_is_no_entity_nothing_is_found(method: str, tmp_path: Path) -> None:
    documents = [Document.build(f"d{i}", [["a", "."], ["b"]], labels=[["O", "O"], ["O"]]) for i in range(40)]
    write_corpus(documents, tmp_path / "corpus", source="test")
    out = tmp_path / "mined.yaml"
    said = run("mine", "--all", "--method", method, "--corpus", tmp_path / "corpus", "--out", out)
    assert "no rule was found" in said
    run("weigh", out, "--corpus", tmp_path / "corpus", "--out", tmp_path / "weighed.yaml")


def test_a_corpus_that_fails_or_has_no_gold_is_said_so(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = [replace(document, labels=None) for document in synthesize(3, seed=4, kind="citations")]
    write_corpus(bare, tmp_path / "bare", source="test")
    out = tmp_path / "mined.yaml"
    assert "has no gold labels" in run("mine", "--all", "--corpus", tmp_path / "bare", "--out", out, code=Exit.INPUT)
    assert "no penalty is called" in run(
        "mine", "--all", "--corpus", corpus, "--out", out, "--penalty", "x", code=Exit.USAGE
    )
    monkeypatch.setattr(concord.flows.commands.mining, "cluster", lambda *_, **__: nullcontext(Here(1)))
    assert "1 of 3 shards failed" in run("mine", "--all", "--corpus", corpus, "--out", out, code=Exit.SHARDS)
