"""Mining by logic against plain loops, every clause there is, planted rules, and corpora in which there are none."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from typer.testing import CliRunner

import concord.flows.commands.mining
from concord.flows.cli.app import app
from concord.flows.cli.failures import Exit
from concord.schemas.document import Batch, Document
from concord.schemas.labels import OUTSIDE, LabelSet, Scheme
from concord.workers.constraints.constraint_file import load_constraints, parse_constraints
from concord.workers.constraints.constraint_writer import constraints_text
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.templates import template
from concord.workers.constraints.templates.template import RowTemplate, Site, TokenTest, Vocabulary
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.learning.mining.logic.clauses import Clause, ClauseCounts, OpeningCounts
from concord.workers.learning.mining.logic.kept import TriedClause, implies, kept_clauses, remarks_on, tried, written
from concord.workers.learning.mining.logic.openings import Literal, Marks, Openings, Place, names_of, openings_of
from concord.workers.learning.mining.logic.search import LearnedClause, LogicSettings, Samples, cheapest, clauses_of
from concord.workers.learning.mining.logic.templates import Unsaid, other_than, template_of
from concord.workers.learning.mining.miner import MinerHere, MiningTask
from concord.workers.learning.mining.registry import miner_named
from concord.workers.learning.mining.rules import passing
from concord.workers.learning.mining.run_order import Runs
from concord.workers.learning.search.folds import is_held_out
from concord.workers.learning.weights.penalties import COUNTED_PENALTY
from tests.support.in_process import Here
from tests.support.made_sequences import ANY, BIO, NESTED, in_order, plain_runs, plainly, shuffled_corpus, spelled

QUICK = LogicSettings(held_out_share=0.5, literals=2, clauses=1, orders=8, mixed=5, deterministic_seconds=0.02)


def samples_of(documents: Sequence[Document], labels: LabelSet) -> Openings:
    batch = Batch.of(list(documents))
    assert batch.labels is not None
    runs = Runs.of(batch, labels.encode(batch.labels.strings()), labels)
    return openings_of(runs, runs.types, Marks.of(Site(batch, labels)), names_of(labels))


def plain_truth(literal: Literal, document: Document, scheme: Scheme) -> list[bool]:
    """Of every run, by loops."""
    runs = [(s, kind, t) for s, sentence in enumerate(plain_runs(document, scheme)) for kind, t in sentence]
    words, found = document.tokens, []
    for i, (sentence, _, at) in enumerate(runs):
        joined = i > 0 and runs[i - 1][0] == sentence
        followed = i + 1 < len(runs) and runs[i + 1][0] == sentence
        seen: dict[Place, str | None] = {
            Place.BEFORE: runs[i - 1][1] if joined else None,
            Place.AFTER: runs[i + 1][1] if followed else None,
            Place.FIRST: runs[0][1] if i > 0 or len(runs) == 1 else None,
            Place.LAST: runs[-1][1] if i + 1 < len(runs) or len(runs) == 1 else None,
            Place.MARK_BEFORE: words[at - 1] if joined else None,
            Place.MARK_FIRST: words[at] if joined else None,
            Place.MARK_LAST: words[runs[i + 1][2] - 1] if followed else None,
            Place.MARK_AFTER: words[runs[i + 1][2]] if followed else None,
        }
        found.append(_holds(literal, seen, [kind for _, kind, _ in runs[:i]], begins=i == 0, ends=i + 1 == len(runs)))
    return found


def _holds(literal: Literal, seen: dict[Place, str | None], earlier: list[str], *, begins: bool, ends: bool) -> bool:
    if literal.place in (Place.BEGINS, Place.ENDS):
        return (begins if literal.place is Place.BEGINS else ends) == literal.holds
    if literal.place is Place.EARLIER:
        return (literal.value in earlier) == literal.holds
    there = seen[literal.place]
    if literal.value:
        return there is not None and (there == literal.value) == literal.holds
    if literal.place in (Place.BEFORE, Place.AFTER):
        return (there is not None) == literal.holds
    return there is not None and (there in ",.") == literal.holds


@given(ANY)
@settings(max_examples=40, deadline=None)
def test_literals_hold_where_plain_loops_say(found: tuple[list[Document], LabelSet]) -> None:
    documents, labels = found
    documents = [document for document in documents if len(document)]
    assume(documents)
    samples = samples_of(documents, labels)
    for literal in samples.literals():
        wanted = [held for document in documents for held in plain_truth(literal, document, labels.scheme)]
        assert samples.truth(literal).tolist() == wanted, literal


@st.composite
def tables(draw: st.DrawFn) -> tuple[Samples, LogicSettings]:
    rows, columns = draw(st.integers(1, 9)), draw(st.integers(1, 7))

    def drawn(size: int, most: int) -> NDArray[np.int64]:
        return np.array(draw(st.lists(st.integers(0, most), min_size=size, max_size=size)), np.int64)

    truth = drawn(rows * columns, 1).reshape(rows, columns) == 1
    right, wrong, costs, sides = drawn(rows, 6), drawn(rows, 6), drawn(columns, 3), drawn(columns, 3)
    samples = Samples(truth, right, wrong, costs, sides, draw(st.integers(1, 9)))
    return samples, LogicSettings(literals=draw(st.integers(1, 4)), mixed=draw(st.integers(0, 4)))


@given(tables())
@settings(max_examples=60, deadline=None)
def test_no_clause_costs_less_by_enumeration_of_all(table: tuple[Samples, LogicSettings]) -> None:
    samples, chosen = table
    most = min(chosen.literals, samples.truth.shape[1])
    every = [c for size in range(1, most + 1) for c in itertools.combinations(range(samples.truth.shape[1]), size)]
    found = cheapest(samples, chosen)
    assert found.proven
    assert found.literals in every
    assert samples.cost(found.literals, chosen) == min(samples.cost(one, chosen) for one in every)


def test_without_time_a_clause_does_not_say_that_it_is_proven() -> None:
    rng = np.random.default_rng(0)
    right, wrong = rng.integers(9, size=(2, 200))
    nothing = np.zeros(60, np.int64)
    samples = Samples(rng.random((200, 60)) < 0.5, right, wrong, nothing, nothing, 3)
    found = cheapest(samples, LogicSettings(deterministic_seconds=1e-9))
    assert not found.proven
    assert 1 <= len(found.literals) <= 3


CLAUSE = st.tuples(st.lists(st.integers(0, 10_000), min_size=1, max_size=3), st.integers(0, 3), st.booleans())


@given(ANY, st.lists(CLAUSE, min_size=1, max_size=12))
@settings(max_examples=50, deadline=None)
def test_constraints_break_in_the_documents_in_which_clauses_do(
    found: tuple[list[Document], LabelSet], drawn: list[tuple[list[int], int, bool]]
) -> None:
    documents, labels = found
    documents = [document for document in documents if len(document) > 1]
    assume(documents)
    samples, names = samples_of(documents, labels), names_of(labels)
    literals = samples.literals()
    beside = [one for one in literals if one.place in (Place.BEFORE, Place.MARK_BEFORE, Place.EARLIER)]
    every = [
        Clause(tuple({of[i % len(of)]: 0 for i in places}), names[k % len(labels.types)], wanted)
        for places, k, wanted in drawn
        for of in (literals, beside)
    ]
    clauses = {clause.name: clause for clause in every}
    said = {name: template_of(clause, labels) for name, clause in clauses.items()}
    templates = tuple(template for template in said.values() if isinstance(template, RowTemplate))
    constraints = DeclaredConstraints(templates).bind(labels)
    again = parse_constraints(constraints_text(constraints, {}), file="x.yaml") if templates else constraints
    assert again.digest == constraints.digest
    for document in documents:
        assert document.labels is not None
        (ground,) = constraints.ground(Batch.of([document]), labels)
        gold = labels.encode(document.labels.strings())
        bad = np.unique(ground.rows.constraint[ground.rows.degree(gold) > 0]).tolist()
        wanted = {name for name in constraints.names if broken(clauses[name], document, labels)}
        assert {constraints.names[i] for i in bad} == wanted


def broken(clause: Clause, document: Document, labels: LabelSet) -> bool:
    """Is there a run where all literals hold and that has the wrong type?"""
    truth = [plain_truth(literal, document, labels.scheme) for literal in clause.literals]
    kinds = [kind for sentence in plain_runs(document, labels.scheme) for kind, _ in sentence]
    return any(all(held) and (own == clause.label) != clause.positive for own, *held in zip(kinds, *truth, strict=True))


@given(ANY, st.lists(CLAUSE, max_size=6), st.floats(0.1, 0.9))
@settings(max_examples=40, deadline=None)
def test_trials_are_held_out_documents(
    found: tuple[list[Document], LabelSet], drawn: list[tuple[list[int], int, bool]], share: float
) -> None:
    documents, labels = found
    literals, names = Openings(names_of(labels), (",", "."), np.zeros((0, 0), np.int32)).literals(), names_of(labels)
    clauses = [
        Clause(tuple(literals[i % len(literals)] for i in places), names[of % len(names)], wanted)
        for places, of, wanted in drawn
    ]
    batch = Batch.of(documents)
    counts = ClauseCounts.of(batch, labels, clauses, held_out=share, orders=2, seed=0)
    every = OpeningCounts.of(batch, labels, held_out=share)
    assert counts.tried + every.learned == len(documents)
    alone = ClauseCounts.of(batch, labels, clauses, held_out=1.0, orders=2, seed=0)
    both = ClauseCounts.merge([counts, alone])
    if alone.table is None:
        return
    n, bad, chance = alone.table
    assert (chance <= 10**9 * n).all()
    for clause, own, breaks in zip(clauses, n.tolist(), bad.tolist(), strict=True):
        filled = [document for document in documents if len(document)]
        assert breaks == sum(broken(clause, d, labels) and _bears(clause, d, labels) for d in filled)
        assert own == sum(_bears(clause, d, labels) for d in filled)
    assert both.table is not None
    assert (both.table - alone.table >= 0).all()


def _bears(clause: Clause, document: Document, labels: LabelSet) -> bool:
    kinds = [kind for sentence in plain_runs(document, labels.scheme) for kind, _ in sentence]
    truth = zip(*(plain_truth(literal, document, labels.scheme) for literal in clause.literals), strict=True)
    return any(map(all, truth)) and (clause.positive or clause.label in kinds)


def mined(documents: Sequence[Document], labels: LabelSet, chosen: LogicSettings) -> list[TriedClause]:
    batch = Batch.of(list(documents))
    samples = OpeningCounts.of(batch, labels, held_out=chosen.held_out_share)
    learned = list(clauses_of(samples, names_of(labels), chosen, seed=0))
    if not learned:
        return []
    clauses = [one.clause for one in learned]
    counts = ClauseCounts.of(batch, labels, clauses, held_out=chosen.held_out_share, orders=chosen.orders, seed=0)
    return kept_clauses(passing(tried(learned, counts), chosen), chosen)


def test_planted_clauses_are_found() -> None:
    """a comes first; d never after b, and only where the run before ends in a mark, so c is what comes behind words."""
    rng, documents = np.random.default_rng(3), []
    for i in range(160):
        runs = ["a", *(str(kind) for kind in rng.permutation(list("bbcd")[: rng.integers(2, 5)]))]
        while "bd" in "".join(runs):
            runs[1:] = [str(kind) for kind in rng.permutation(runs[1:])]
        documents.append(spelled(str(i), runs, rng, mark=bool(i % 3)))
    labels = LabelSet.bio("abcd")
    found = {one.name: one for one in mined(documents, labels, LogicSettings(held_out_share=0.5, mixed=5))}
    assert found["first: a"].broken == 0
    assert "before d: no b" in found, "which is the same as no d after b"
    assert all(one.learned.proven for one in found.values())
    made = written(list(found.values()), labels)
    assert {one.name for one in made.clauses} | {one.name for one, _ in made.unsaid} == set(found)
    assert list(made.constraints.titles) == [one.name for one in made.clauses]


@pytest.mark.parametrize("labels", [NESTED, LabelSet(("a", "b", "c"), Scheme.PLAIN)], ids=["nested", "plain"])
def test_shuffled_corpora_give_no_more_than_the_stated_rate(labels: LabelSet) -> None:
    """Of 15 corpora in which nothing holds but by chance one in twenty may show a clause, however rarely it holds."""
    chosen, found = QUICK.model_copy(update={"held": 0.0}), 0
    for seed in range(15):
        documents = shuffled_corpus(seed, 30, labels.types)
        found += bool(mined(documents if labels is NESTED else [plainly(d) for d in documents], labels, chosen))
    assert found <= 3, "more than three of fifteen have a probability of 0.5 %"


def test_the_rarest_samples_are_left_out_and_that_is_said() -> None:
    rng = np.random.default_rng(5)
    documents = [spelled(str(i), ["a", *rng.permutation(list("bc")).tolist()], rng) for i in range(60)]
    counts = OpeningCounts.of(Batch.of(documents), BIO, held_out=0.5)
    trial = ClauseCounts.merge([])
    assert len(list(remarks_on(counts, trial, [], QUICK))) == 1
    few = QUICK.model_copy(update={"vectors": 2})
    _, said = remarks_on(counts, trial, [], few)
    assert f"of {len(counts.counts):,} distinct runs the 2 most frequent were learned from" in said
    by_few, by_all = (list(clauses_of(counts, names_of(BIO), chosen, seed=0)) for chosen in (few, QUICK))
    assert by_few != by_all
    assert list(clauses_of(OpeningCounts.merge([]), names_of(BIO), QUICK, seed=0)) == []


SIGNS = ",.;-()[]\\^$*'"


@given(st.text(SIGNS, min_size=1, max_size=3), st.lists(st.text(f"{SIGNS}ab\n", max_size=4), min_size=1))
@settings(max_examples=100, deadline=None)
def test_tokens_other_than_a_mark(mark: str, strings: list[str]) -> None:
    strings = list(dict.fromkeys([*strings, mark]))
    test = TokenTest(pattern="|".join(other_than(mark)))
    assert test.held(Vocabulary(strings, np.arange(len(strings)))).tolist() == [one != mark for one in strings]


def test_what_implies_what() -> None:
    def clause(literals: Sequence[Literal], label: str, *, wanted: bool = True) -> TriedClause:
        return TriedClause(LearnedClause(Clause(tuple(literals), label, wanted), 9, 0, proven=True), 50, 0, 0.5)

    first, after = Literal(Place.BEGINS), Literal(Place.AFTER, "b")
    assert implies(clause([first], "a"), clause([after, first], "b", wanted=False))
    assert implies(clause([first], "a"), clause([first, after], "a"))
    assert not implies(clause([first, after], "a"), clause([first], "a"))
    assert not implies(clause([first], "a"), clause([first], "a", wanted=False))
    assert not implies(clause([first], "a", wanted=False), clause([first], "b"))


def test_why_no_constraint_says_a_clause() -> None:
    both = Clause((Literal(Place.BEFORE, "a"), Literal(Place.AFTER, "b")), "c")
    tests = Clause((Literal(Place.MARK_BEFORE, "."), Literal(Place.MARK_FIRST, ",")), "c")
    for clause, word in ((both, "distance"), (tests, "tokens"), (Clause((Literal(Place.FIRST, "a"),), "c"), "ends")):
        said = template_of(clause, BIO)
        assert isinstance(said, Unsaid)
        assert word in said.reason
    plain = LabelSet(("a", "b", "c"), Scheme.PLAIN)
    assert OUTSIDE not in str(template_of(Clause((Literal(Place.BEFORE, "a"),), "c"), plain))


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Documents that begin with a and know b only behind a mark, in three shards that are counted in this process."""
    monkeypatch.setattr(concord.flows.commands.mining, "cluster", lambda *_, **__: nullcontext(Here(None)))
    rng = np.random.default_rng(1)
    documents = [spelled(f"{i}", ["a", *rng.permutation(list("bcd")).tolist()], rng) for i in range(90)]
    for i in range(3):
        write_corpus(documents[30 * i : 30 * (i + 1)], tmp_path / "corpus" / str(i), source="test")
    write_corpus(documents, tmp_path / "one", source="test")
    return tmp_path


def run(*words: str | Path, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["constraints", *map(str, words)])
    assert done.exit_code == code, done.output
    return done.stdout if "--json" in words else done.output


BY_LOGIC = ("--method", "logic", "--set", "literals=2", "--set", "mixed=0", "--set", "support=5")


def test_the_file_loads_checks_and_says_why(corpus: Path) -> None:
    out, again = corpus / "mined.yaml", corpus / "again.yaml"
    said = run("mine", "--all", "--corpus", corpus / "corpus", "--out", out, *BY_LOGIC)
    constraints, text = load_constraints(out), out.read_text()
    assert "first: a" in constraints.titles
    assert text.count("  # binds in ") == text.count("; no clause costs less") == len(constraints.titles)
    assert "held-out documents" in text.splitlines()[0]
    report = json.loads(run("mine", "--all", "--corpus", corpus / "one", "--out", again, *BY_LOGIC, "--json"))
    assert again.read_text() == text, "one shard or three"
    assert text.count("no constraint says it") == len(report["unsaid"]) > 0
    assert all(one["name"] in said.replace("\n", " ") for one in report["unsaid"])
    checked = json.loads(run("check", out, "--corpus", corpus / "one", "--conflicts", "0", "--json"))
    breaks = {row["name"]: row["gold"]["documents"] for row in checked["constraints"]}
    assert all(row["broken"] <= breaks[row["name"]] for row in report["rules"])
    assert all(row["gold"]["bearing"] > 0 for row in checked["constraints"])


def test_methods_and_failures_are_named(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = corpus / "mined.yaml"
    place, given = corpus / "corpus", ("mine", "--all", "--out", out)
    assert "no method of mining is called 'x'" in run(
        "mine", "--all", "--corpus", place, "--out", out, "--method", "x", code=Exit.USAGE
    )
    wrong = ("--method", "logic", "--set", "kinds=once")
    assert "options of constraints mine --method logic" in run(
        "mine", "--all", "--corpus", place, "--out", out, *wrong, code=Exit.USAGE
    )
    nothing = run(*given, "--corpus", place, "--method", "logic", "--set", "support=1000")
    assert "no rule was found" in nothing
    assert load_constraints(out).templates == ()
    monkeypatch.setattr(concord.flows.commands.mining, "cluster", lambda *_, **__: nullcontext(Here(1)))
    assert "1 of 3 shards failed" in run("mine", "--all", "--corpus", place, "--out", out, *BY_LOGIC, code=Exit.SHARDS)


@pytest.mark.parametrize("method", ["logic", "counting"])
@pytest.mark.parametrize("place", ["learned", "held out", "without gold"])
def test_a_rule_that_a_document_cannot_hold_is_told_and_the_others_are_written(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, method: str, place: str
) -> None:
    """Rules about what stands anywhere earlier have rows that grow with the square of a document."""
    rng = np.random.default_rng(2)
    named = next(
        name
        for i in range(99)
        if is_held_out(name := f"long{i}", LogicSettings().held_out_share) == (place != "learned")
    )
    long = in_order(named, rng, times=12)
    if place == "without gold":
        long = Document.build(named, [list(long.tokens)])
    documents = [in_order(str(i), rng) for i in range(120)]
    for i in range(3):
        write_corpus(documents[i::3], corpus / "four" / str(i), source="test")
    write_corpus(documents, corpus / "two" / "short", source="test")
    for name in ("four", "two"):
        write_corpus([long], corpus / name / "long", source="test")
    out, words = corpus / "mined.yaml", BY_LOGIC if method == "logic" else ("--set", "support=5")
    given = ("mine", "--all", "--out", out, *words, "--json", "--corpus")
    every = json.loads(run(*given, corpus / "two"))
    monkeypatch.setattr(template, "MOST_ENTRIES", 1_000)
    report = json.loads(run(*given, corpus / "two"))
    large = [one for one in report["unsaid"] if "entries" in one["reason"]]
    assert [one for one in report["unsaid"] if one not in large] == every["unsaid"]
    assert {one["name"] for one in large} | {one["name"] for one in report["rules"]} == {
        r["name"] for r in every["rules"]
    }
    assert len(large) + len(report["rules"]) == len(every["rules"])
    assert len(report["rules"]) > 0
    assert len(large) > 0
    assert all(repr(named) in one["reason"] and "1,000 are the most" in one["reason"] for one in large)
    assert [rule for rule in every["rules"] if rule in report["rules"]] == report["rules"], "what is left is as it was"
    text = out.read_text()
    assert text.count("no constraint says it, as it would have ") == len(large)
    assert set(load_constraints(out).titles) == {rule["name"] for rule in report["rules"]}
    run("check", out, "--corpus", corpus / "two", "--conflicts", "0")
    run(*given, corpus / "four")
    assert out.read_text() == text, "two shards or four"


@pytest.mark.parametrize("method", ["logic", "counting"])
def test_folds_are_mined_for_what_all_documents_can_hold(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    rng = np.random.default_rng(2)
    documents, long = [in_order(str(i), rng) for i in range(120)], in_order("long", rng, times=12)
    entry = miner_named(method)
    chosen = entry.settings.model_validate({"support": 5} | ({"mixed": 0, "literals": 2} if method == "logic" else {}))
    labels = LabelSet.bio("abcd")
    miner = MinerHere(entry, MiningTask(labels, chosen, 0), COUNTED_PENALTY["odds"])
    every = miner.rules(documents, documents)
    monkeypatch.setattr(template, "MOST_ENTRIES", 1_000)
    assert miner.rules(documents, documents).digest == every.digest
    fewer = miner.rules(documents, [*documents, long])
    assert 0 < len(fewer.titles) < len(every.titles)
    fewer.ground(Batch.of([*documents, long]), labels)
