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

import flows.commands.mining
from flows.cli.app import app
from flows.cli.failures import Exit
from schemas.document import Batch, Document
from schemas.labels import OUTSIDE, LabelSet, Scheme
from tests.in_process import Here
from workers.constraints.constraint_file import load_constraints
from workers.corpus.ingestion import write_corpus
from workers.learning.mining import (
    MiningSettings,
    Rule,
    candidates,
    declared,
    implies,
    in_documents,
    kept_of,
    significant,
)
from workers.learning.penalties import COUNTED
from workers.learning.rule_counts import Kind, RuleCounts, order_verdicts
from workers.learning.run_order import Runs
from workers.synthesis.made_up import synthesize

PLAIN = LabelSet(("a", "b", "c"), Scheme.PLAIN)
BIO = LabelSet.bio(["a", "b", "c"])
FEW = 3


def mined(counts: RuleCounts, labels: LabelSet, settings: MiningSettings) -> list[Rule]:
    return kept_of(significant(candidates(counts, labels), settings), settings)


def counted(documents: Sequence[Document], labels: LabelSet, *, seed: int = 0, orders: int = FEW) -> RuleCounts:
    return RuleCounts.of(Batch.of(list(documents)), labels, orders=orders, seed=seed)


def plain_runs(document: Document, scheme: Scheme) -> list[list[tuple[str, int]]]:
    """For each sentence the type of every run and where it starts, by a loop."""
    assert document.labels is not None
    names, starts = document.labels.strings(), set(document.sentence_starts.tolist())
    sentences: list[list[tuple[str, int]]] = []
    before = ""
    for t, name in enumerate(names):
        kind = name[2:] if scheme is Scheme.BIO and name != OUTSIDE else name
        if t in starts:
            sentences.append([])
        opens = t in starts or kind != before or name.startswith("B-")
        if opens:
            sentences[-1].append((kind, t))
        before = kind
    return sentences


def naive(documents: Sequence[Document], scheme: Scheme) -> dict[tuple[str, str, str], tuple[int, int]]:
    """(n, broken) of every rule but those about places of change, by loops."""
    found: Counter[tuple[str, str, str, bool]] = Counter()
    names = ["a", "b", "c", OUTSIDE]
    for document in documents:
        sentences = [[kind for kind, _ in sentence] for sentence in plain_runs(document, scheme)]
        runs = [kind for sentence in sentences for kind in sentence]
        edges = [(x, y) for s in sentences for x, y in itertools.pairwise(s) if x != y]
        for a in names:
            if runs:
                found["starts", a, "", runs[0] == a] += 1
                found["ends", a, "", runs[-1] == a] += 1
                found["there", a, "", a in runs] += 1
            if a in runs:
                found["once", a, "", runs.count(a) == 1] += 1
            after = [y for x, y in edges if x == a]
            for b in names:
                if a in runs:
                    found["needs", a, b, b in runs] += 1
                if after:
                    found["followed", a, b, all(y == b for y in after)] += 1
                if after and b in runs:
                    found["apart", a, b, b not in after] += 1
                if a in runs and b in runs:
                    last = max(i for i, kind in enumerate(runs) if kind == a)
                    found["order", a, b, b not in runs[:last]] += 1
    keys = {key[:3] for key in found}
    return {key: (found[*key, True] + found[*key, False], found[*key, False]) for key in keys}


def documents_of(label: st.SearchStrategy[str]) -> st.SearchStrategy[list[Document]]:
    token = st.tuples(st.sampled_from(["w", ",", "."]), label)
    document = st.lists(st.lists(token, min_size=1, max_size=5), max_size=3)
    return st.lists(document, min_size=1, max_size=5).map(
        lambda found: [
            Document.build(f"d{i}", [[w for w, _ in s] for s in d], labels=[[x for _, x in s] for s in d])
            for i, d in enumerate(found)
        ]
    )


ANY_PLAIN = documents_of(st.sampled_from(PLAIN.names))
ANY_BIO = documents_of(st.sampled_from(BIO.names))


@given(st.one_of(ANY_PLAIN.map(lambda d: (d, PLAIN)), ANY_BIO.map(lambda d: (d, BIO))))
@settings(max_examples=60, deadline=None)
def test_counts_are_those_of_plain_loops(found: tuple[list[Document], LabelSet]) -> None:
    documents, labels = found
    rules = candidates(counted(documents, labels), labels)
    wanted = naive(documents, labels.scheme)
    for rule in rules:
        assert rule.kind is Kind.CHANGES or wanted[rule.kind, rule.first, rule.second] == (rule.n, rule.broken)
        assert 0.0 <= rule.chance <= 1.0
    said = {(rule.kind, rule.first, rule.second) for rule in rules}
    for (kind, a, b), (n, _) in wanted.items():
        speaks = a != b and a in labels.types and (b in ("", *labels.types))
        assert not speaks or n == 0 or (Kind(kind), a, b) in said


@given(st.one_of(ANY_PLAIN.map(lambda d: (d, PLAIN)), ANY_BIO.map(lambda d: (d, BIO))))
@settings(max_examples=30, deadline=None)
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


@given(ANY_BIO, st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_sharding_does_not_matter(documents: list[Document], at: int) -> None:
    whole = counted(documents, BIO)
    parts = [counted(part, BIO) for part in (documents[at:], documents[:at])]
    merged = RuleCounts.merge([*parts, RuleCounts.merge([])])
    assert {k: v.tolist() for k, v in whole.tables.items()} == {k: v.tolist() for k, v in merged.tables.items()}
    assert {k: v.tolist() for k, v in whole.sizes.items()} == {k: v.tolist() for k, v in merged.sizes.items()}
    assert candidates(whole, BIO) == candidates(merged, BIO)


def spelled(doc_id: str, runs: Sequence[str], rng: np.random.Generator, *, mark: bool = True) -> Document:
    """A document with these runs in BIO, of one to three tokens each and a mark at their ends."""
    words: list[str] = []
    labels: list[str] = []
    for kind in runs:
        length = int(rng.integers(1, 4))
        words += ["w"] * (length - 1) + ["," if mark else "w"]
        labels += [f"B-{kind}"] + [f"I-{kind}"] * (length - 1)
    return Document.build(doc_id, [words], labels=[labels])


def shuffled_corpus(seed: int, size: int, types: str) -> list[Document]:
    """Runs of types and places that know nothing of each other."""
    rng = np.random.default_rng(seed)
    return [
        spelled(f"{seed}-{i}", [str(rng.choice(list(types))) for _ in range(rng.integers(1, 8))], rng, mark=False)
        for i in range(size)
    ]


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


def plainly(document: Document) -> Document:
    """The same with plain labels: neighbours of one label become one run."""
    assert document.labels is not None
    names = [name[2:] for name in document.labels.strings()]
    return Document.build(document.doc_id, [document.tokens], labels=[names])


OF_ORDER = (Kind.STARTS, Kind.ENDS, Kind.FOLLOWED, Kind.APART, Kind.ORDER, Kind.CHANGES)


@pytest.mark.parametrize(("labels", "kinds"), [(BIO, tuple(Kind)), (PLAIN, OF_ORDER)], ids=["bio", "plain"])
def test_shuffled_corpora_give_no_more_than_the_stated_rate(labels: LabelSet, kinds: tuple[Kind, ...]) -> None:
    """Of 100 corpora in which nothing holds but by chance at most 5 may show a rule, however rarely it holds."""
    chosen, found = MiningSettings(held=0.0, kinds=kinds), 0
    for seed in range(100):
        documents = shuffled_corpus(seed, 20, "abc")
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
    starts = order_verdicts(runs, runs.types)[Kind.STARTS][1]
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
    assert not kept & {Kind.FOLLOWED, Kind.APART, Kind.STARTS, Kind.ENDS}


def test_what_implies_what() -> None:
    there, needs = Rule(Kind.THERE, "b", "", 100, 1, 0.5), Rule(Kind.NEEDS, "a", "b", 50, 0, 0.5)
    assert implies(there, needs)
    assert not implies(needs, there)


def test_an_implied_rule_stays_where_it_is_plainly_surer() -> None:
    """Nine of ten documents change labels before a mark only, all beside one."""
    rng = np.random.default_rng(5)
    documents = [spelled(str(i), "abcabc", rng) for i in range(300)]
    labels = LabelSet.bio("abc")
    odd = [Document.build(f"x{i}", [["w", "w", ",", "w"]], labels=[["B-a", "I-a", "B-b", "I-b"]]) for i in range(30)]
    chosen = MiningSettings(kinds=(Kind.CHANGES,))
    sides = {r.first: r.broken for r in mined(counted(documents + odd, labels), labels, chosen)}
    assert sides == {"before": 30, "either": 0}
    assert [r.first for r in mined(counted(documents, labels), labels, chosen)] == ["before"]


@pytest.mark.parametrize("penalty", COUNTED)
def test_weights_are_those_of_documents(penalty: str) -> None:
    rows = in_documents(Rule(Kind.ONCE, "a", "", 40, 4, 0.5), 8.0)
    cost = COUNTED[penalty]
    assert rows.weight(cost, cost.settings()) == cost.nats(40, 4, cost.settings()) / 2.0


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Citations in three shards, counted in this process."""
    monkeypatch.setattr(flows.commands.mining, "cluster", lambda *_, **__: nullcontext(Here(None)))
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
    said = run("mine", corpus, "--out", out)
    constraints = load_constraints(out)
    assert "one title" in constraints.titles
    assert f"{len(constraints.titles)} in " in said
    text = out.read_text()
    assert text.count("  # binds in ") == len(constraints.titles)
    one = tmp_path / "one"
    write_corpus(list(synthesize(60, seed=4, kind="citations")), one, source="test")
    run("mine", one, "--out", tmp_path / "again.yaml")
    assert (tmp_path / "again.yaml").read_text() == text, "one shard or three"
    checked = json.loads(run("check", out, "--corpus", one, "--conflicts", "0", "--json"))
    assert {row["name"]: row["gold"]["documents"] for row in checked["constraints"]} == {
        row["name"]: row["broken"] for row in json.loads(run("mine", corpus, "--out", out, "--json"))["rules"]
    }


def test_where_nothing_is_found_nothing_is_written(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "mined.yaml"
    assert "no rule was found" in run("mine", corpus, "--out", out, "--option", "support=1000")
    assert not out.exists()


def test_a_corpus_that_fails_or_has_no_gold_is_said_so(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = [replace(document, labels=None) for document in synthesize(3, seed=4, kind="citations")]
    write_corpus(bare, tmp_path / "bare", source="test")
    out = tmp_path / "mined.yaml"
    assert "has no gold labels" in run("mine", tmp_path / "bare", "--out", out, code=Exit.INPUT)
    assert "no penalty is called" in run("mine", corpus, "--out", out, "--penalty", "x", code=Exit.USAGE)
    monkeypatch.setattr(flows.commands.mining, "cluster", lambda *_, **__: nullcontext(Here(1)))
    assert "1 of 3 shards failed" in run("mine", corpus, "--out", out, code=Exit.SHARDS)
