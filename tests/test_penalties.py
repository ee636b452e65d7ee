"""Counted weights against counts made by hand."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from concord.schemas.audit import KnownWeight
from concord.schemas.document import Batch, Document
from concord.schemas.labels import LabelSet, Scheme
from concord.schemas.potentials import Potentials
from concord.testing import check_penalty
from concord.workers.constraints.consistency import LabelConsistency, PairCounts, Scales
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.declared_weights import declared_weights, with_weights
from concord.workers.constraints.templates.features import TokenFeature
from concord.workers.constraints.templates.order import Adjacency
from concord.workers.constraints.templates.presence import StartsWith
from concord.workers.constraints.templates.repeats import (
    Consistent,
    ConsistentSubsequence,
    ConsistentUnlabelled,
    ConsistentValue,
)
from concord.workers.constraints.templates.runs import AppearsOnce
from concord.workers.constraints.templates.template import TokenTest
from concord.workers.constraints.templates.words import Lexicon, OnlyIn, ShouldBeTagged
from concord.workers.learning.search.climbing import alike, climb
from concord.workers.learning.weights.known_weights import known_weights
from concord.workers.learning.weights.penalties import (
    PENALTIES,
    OddsSettings,
    PenaltySettings,
    TunedSettings,
    fersini,
    odds,
)
from concord.workers.learning.weights.row_counts import RowCounts, count_rows, wilson
from concord.workers.learning.weights.tuned_weights import tune_weights
from tests.support.oracle import naive_spans

LABELS = LabelSet(("author", "date", "title"), Scheme.PLAIN)
DECLARED = DeclaredConstraints(
    (
        StartsWith(labels=("author",), weight=1.0),
        TokenFeature(tokens=("in",), labels=("title",), weight=-1.0),
        AppearsOnce(name="once", labels=("date",), weight=math.inf),
        Lexicon(words=("may",), labels=("date",), weight=9.0),
    )
)
DOCUMENTS = [
    Document.build("a", [["smith", "may"]], labels=[["author", "date"]]),
    Document.build("b", [["may", "in", "may", "in", "may"]], labels=[["date", "title", "date", "title", "date"]]),
    Document.build("c", [["in", "may"]], labels=[["author", "title"]]),
]


AS_COUNTED = OddsSettings()
ODDS = PENALTIES["odds"]


def counted(*documents: Document) -> dict[str, RowCounts]:
    return count_rows(DECLARED, [Batch.of(list(documents))], LABELS)


@pytest.mark.parametrize("name", PENALTIES)
def test_each_keeps_its_promises(name: str) -> None:
    check_penalty(PENALTIES[name])


def test_counts_by_hand() -> None:
    counts = counted(*DOCUMENTS)
    assert list(counts) == ["starts_with(author)", "once", "lexicon(date)"]
    assert counts["starts_with(author)"] == (3, 0, 1, 1.0)
    assert counts["starts_with(author)"].weight(ODDS, AS_COUNTED) == pytest.approx(math.log(2.5 / 1.5))
    assert counts["once"] == (2, 1, 1, 2.0), "the last document has no date at all"
    assert counts["once"].weight(ODDS, AS_COUNTED) == 0.0
    assert counts["lexicon(date)"] == (5, 0, 1, 1.0)
    assert counts["lexicon(date)"].weight(ODDS, AS_COUNTED) == pytest.approx(math.log(4.5 / 1.5))


def test_batches_add_up() -> None:
    parts = count_rows(DECLARED, [Batch.of(DOCUMENTS[:1]), Batch.of(DOCUMENTS[1:])], LABELS)
    assert parts == counted(*DOCUMENTS)


def test_rows_without_their_antecedent_are_no_evidence() -> None:
    declared = DeclaredConstraints((Adjacency(name="next", first=("date",), second=("title",), weight=1.0),))
    text = Document.build(
        "a", [["x"] * 8], labels=[["author", "date", "author", "author", "date", "title", "title", "title"]]
    )
    counts = count_rows(declared, [Batch.of([text])], LABELS)
    assert counts["next"] == (2, 5, 1, 1.0)
    assert counts["next"].weight(ODDS, AS_COUNTED) == 0.0


def test_what_gold_breaks_more_than_keeps_weighs_nothing_and_what_it_never_breaks_stays_soft() -> None:
    counts = counted(DOCUMENTS[1])
    assert counts["starts_with(author)"].weight(ODDS, AS_COUNTED) == 0.0
    assert counts["lexicon(date)"].weight(ODDS, AS_COUNTED) == pytest.approx(math.log(3.5 / 0.5))


def test_imagined_rows_make_what_was_seldom_seen_strong_and_fade_with_what_was_seen() -> None:
    held = OddsSettings(held=50.0)
    assert odds(5, 0, held) - odds(5, 0, AS_COUNTED) == pytest.approx(math.log(55.5 / 5.5))
    assert odds(5000, 0, held) - odds(5000, 0, AS_COUNTED) < 0.01


def test_the_surprise_of_a_broken_row_grows_as_they_get_rarer() -> None:
    assert fersini(9, 2, PenaltySettings()) == pytest.approx(math.log(4.0))
    assert fersini(99, 0, PenaltySettings()) == pytest.approx(math.log(200.0))


@pytest.mark.parametrize("name", PENALTIES)
def test_penalties_are_never_negative_and_fall_with_the_broken_share(name: str) -> None:
    found = [PENALTIES[name].nats(40.0, b / 2, PENALTIES[name].settings()) for b in range(81)]
    assert min(found) >= 0.0
    assert all(after <= before for before, after in itertools.pairwise(found))


@given(st.integers(0, 300), st.integers(0, 300), st.floats(1.0, 4.0))
def test_intervals_hold_the_weight_and_the_share(broken: int, more: int, units: float) -> None:
    rows = broken + more
    counts = RowCounts(rows, 3, broken, broken * units)
    low, high = wilson(broken, rows)
    share = broken / rows if rows else 0.5
    assert 0.0 <= low <= share <= high <= 1.0
    for penalty in PENALTIES.values():
        least, most = counts.interval(penalty, penalty.settings())
        assert least <= counts.weight(penalty, penalty.settings()) + 1e-12
        assert counts.weight(penalty, penalty.settings()) <= most + 1e-12


def test_the_interval_is_wilsons() -> None:
    # The roots of (p − s)² = z² s (1 − s) / n.
    for count, total in ((0, 10), (3, 10), (10, 10), (116, 129)):
        p, z = count / total, 1.959963984540054
        roots = np.roots([1 + z * z / total, -(2 * p + z * z / total), p * p])
        assert wilson(count, total) == pytest.approx(sorted(roots.real), abs=1e-9)


def test_weights_replace_soft_ones_by_name() -> None:
    new = with_weights(DECLARED, {"lexicon(date)": 0.25, "once": 3.0})
    assert [t.weight for t in new.templates] == [1.0, -1.0, math.inf, 0.25]  # type: ignore[attr-defined]
    assert new.titles == DECLARED.titles
    assert new.names == DECLARED.names


def test_documents_without_gold_are_refused() -> None:
    with pytest.raises(ValueError, match="'x' and after have no gold labels"):
        counted(Document.build("x", [["may"]]))


BIO = LabelSet.bio(["ORG", "PER"])
NAMES = st.sampled_from([["a"], ["b"], ["a", "b"], ["b", "a", "b"]])
PIECES = st.lists(st.tuples(NAMES, st.sampled_from(["ORG", "PER", ""])), min_size=1, max_size=7)


def marked(pieces: list[tuple[list[str], str]]) -> Document:
    """Names one after another, of a type or left out."""
    kinds = [[("B-" if i == 0 else "I-") + kind if kind else "O" for i in range(len(w))] for w, kind in pieces]
    return Document.build("d", [list(itertools.chain(*(w for w, _ in pieces)))], labels=[list(itertools.chain(*kinds))])


def parts_of(words: tuple[str, ...]) -> set[tuple[str, ...]]:
    n = len(words)
    return {words[i:j] for i in range(n) for j in range(i + 1, n + 1) if j - i < n}


@settings(max_examples=150, deadline=None)
@given(PIECES)
def test_pairs_of_agreements_are_those_of_plain_loops(pieces: list[tuple[list[str], str]]) -> None:
    document = marked(pieces)
    words, labels = document.tokens, BIO.encode(document.labels.strings())  # type: ignore[union-attr]
    spans = [(tuple(words[s:e]), kind) for s, e, kind in naive_spans(labels, BIO, [0])]
    kinds, person = list(BIO.types), list(BIO.types).index("PER")
    pairs = list(itertools.combinations(spans, 2))
    same = [(a, b) for (v, a), (w, b) in pairs if v == w]
    inside = [(a, b) for (v, a), (w, b) in itertools.permutations(spans, 2) if w in parts_of(v)]
    out = [t for t in range(len(words)) if labels[t] == BIO.names.index("O")]
    left = [1 for w, kind in spans for t in out if kind == person and tuple(words[t : t + len(w)]) == w]
    of_one = [(v, w) for (v, a), (w, b) in pairs if a == b == person]
    expected = {
        "same": (len(same), sum(a != b for a, b in same)),
        "part": (len(inside), sum(a != b for a, b in inside)),
        "left": (len(left) + sum(person in pair for pair in same), len(left)),
        "value": (len(of_one), sum(v != w for v, w in of_one)),
        "value by token": (len(of_one), sum(v != w for v, w in of_one)),
        "alone": (sum(a == b == person for a, b in same), 0),
    }
    declared = DeclaredConstraints(
        (
            Consistent(name="same", weight=0.0),
            ConsistentSubsequence(name="part", weight=2.0),
            ConsistentUnlabelled(name="left", labels=("PER",), weight=math.inf),
            ConsistentValue(name="value", labels=("PER",), weight=1.0),
            ConsistentValue(name="value by token", labels=("PER",), weight=1.0, per_token=True),
            Consistent(name="alone", labels=("PER",), weight=1.0),
        )
    )
    counts = count_rows(declared, [Batch.of([document])], BIO)
    found = {name: (count.rows, count.broken) for name, count in counts.items()}
    del expected["alone"], found["alone"]  # of one type alone nothing is charged, and nothing is spoken of
    assert found == expected
    assert len(kinds) == 2


def test_bayes_is_what_label_consistency_costs() -> None:
    documents = [marked([(["a"], "PER"), (["a"], "ORG"), (["a"], "PER"), (["b"], "ORG"), (["b"], "ORG"), (["a"], "")])]
    counts = PairCounts.of(documents, BIO)
    known = {w.name: w for w in known_weights(LabelConsistency(counts, Scales(1.0, 0.5, 0.25)))}
    org, per = BIO.types.index("ORG"), BIO.types.index("PER")
    assert known["consistent(ORG, PER)"].weight == pytest.approx(counts.exact_cost()[org, per])
    assert known["consistent_subsequence(PER, ORG)"].weight == pytest.approx(0.5 * counts.subsequence_cost()[per, org])
    assert known["consistent_unlabelled(PER)"].weight == pytest.approx(0.25 * counts.unlabelled_cost()[per, 0])
    # Of PER's 3 pairs and 2 places left out, 2 are left out.
    (times, total) = int(counts.unlabelled[per]), int(counts.exact[per].sum() + counts.unlabelled[per])
    least, most = wilson(times, total)
    assert known["consistent_unlabelled(PER)"].low == pytest.approx(-0.25 * math.log(most))
    assert known["consistent_unlabelled(PER)"].high == pytest.approx(-0.25 * math.log(max(least, 1.0 / total)))
    assert all(w.low <= w.weight <= w.high for w in known.values() if w.low is not None and w.high is not None)
    declared = DeclaredConstraints((StartsWith(labels=("author",), weight=math.inf),))
    assert list(known_weights(declared)) == [KnownWeight(name="starts_with(author)", weight=math.inf)]


def test_bayes_takes_what_was_never_broken_as_broken_once() -> None:
    bayes = PENALTIES["bayes"]
    assert RowCounts(50, 0, 0, 0.0).weight(bayes, bayes.settings()) == pytest.approx(math.log(50))
    assert RowCounts(50, 0, 5, 5.0).weight(bayes, bayes.settings()) == pytest.approx(math.log(10))
    assert RowCounts(0, 0, 0, 0.0).weight(bayes, bayes.settings()) == 0.0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 9), min_size=4, max_size=4), min_size=1, max_size=3))
def test_climbing_finds_the_best_of_a_sum_with_one_peak_a_coordinate(heights: list[list[int]]) -> None:
    grid = (0.0, 0.5, 1.0, 2.0)
    slopes = [sorted(h[:2]) + sorted(h[2:], reverse=True) for h in heights]
    slopes = [[row[0], max(row), row[2] - 10, row[3] - 20] for row in slopes]

    def worth(point: tuple[float, ...]) -> tuple[float, ...]:
        return float(sum(row[grid.index(value)] for row, value in zip(slopes, point, strict=True))), -sum(point)

    first = alike(grid, len(slopes), worth)
    assert len(set(first)) == 1
    every = itertools.product(grid, repeat=len(slopes))
    assert worth(climb(first, grid, worth)) == max(worth(point) for point in every)


class _Scores(NamedTuple):
    """A model whose scores lie in the words: w:x:y is x nats for the label A and y for B."""

    labels: LabelSet = LabelSet(("A", "B"), Scheme.PLAIN)
    digest: str = "x"
    columns: tuple[str, ...] = ()

    def potentials(self, batch: Batch) -> Potentials:
        rows = [[float(part) for part in word.split(":")[1:]] for word in batch.columns["tokens"].strings()]
        return Potentials(np.array(rows).reshape(-1, 2), np.zeros((2, 2)), batch.sentence_starts)


def test_factors_are_those_that_help_on_held_out_documents() -> None:
    # The model is sure by 3 nats and wrong at "in", right at "of": the first lexicon helps once it weighs more than 3,
    # the second harms as soon as it does, and what makes no difference keeps its weight.
    texts = [[f"in:{3 - i}:0", "of:0:3", "x:1:0"] for i in range(3)]
    documents = [Document.build(str(i), [t], labels=[["B", "B", "A"]]) for i, t in enumerate(texts)]
    declared = DeclaredConstraints(
        (
            Lexicon(name="helps", words=("in:3:0", "in:2:0", "in:1:0"), labels=("B",), weight=1.0),
            OnlyIn(name="harms", tokens=TokenTest(words=("of:0:3",)), labels=("A",), weight=2.0),
            StartsWith(name="kept", labels=("A", "B"), weight=math.inf),
            ShouldBeTagged(name="idle", labels=("A",), position=-1, weight=0.5),
        )
    )
    chosen = TunedSettings(factors=(0.0, 1.0, 2.0, 4.0))
    tuned = tune_weights(Batch.of(documents), _Scores(), declared, chosen)
    assert tuned.factors == {"lexicon": 4.0, "only_in": 1.0, "should_be_tagged": 1.0}
    assert [tuned.before, tuned.after] == pytest.approx([6 / 9, 1.0])
    assert tuned.gain.difference == pytest.approx(3 / 9)
    weights = dict(declared_weights(tuned.of(declared)))
    assert weights == {"helps": 4.0, "harms": 2.0, "kept": math.inf, "idle": 0.5}


def test_factors_ascend_through_one() -> None:
    for factors in ((0.5, 2.0), (1.0, 0.5), (1.0, 1.0, 2.0)):
        with pytest.raises(ValidationError, match="ascending factors"):
            TunedSettings(factors=factors)
