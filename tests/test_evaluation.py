"""Evaluation counts against two independent implementations: seqeval, and sets of spans found the slow way."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import permutations
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from seqeval.metrics.sequence_labeling import accuracy_score, precision_recall_fscore_support

from concord.schemas.document import Batch, Column, SourceSpans, TokenizedTexts
from concord.schemas.labels import Labels, LabelSet, Scheme
from concord.workers.evaluation.changes import EntityChanges, TokenChanges
from concord.workers.evaluation.conlleval import EntityCounts
from concord.workers.evaluation.figures import FIGURES
from concord.workers.evaluation.label_ids import shared_label_ids
from concord.workers.evaluation.measures import MEASURES, Pair
from concord.workers.evaluation.named_counts import MatchCounts
from concord.workers.evaluation.tally import Tally

BIO = LabelSet.bio(["PER", "LOC", "ORG"])
PLAIN = LabelSet(("author", "date", "title"), Scheme.PLAIN)

Corpus: TypeAlias = list[list[list[tuple[str, str, str]]]]
Span: TypeAlias = tuple[int, int, int, int, str]


def corpora(labels: LabelSet) -> st.SearchStrategy[Corpus]:
    """Documents of sentences of (gold, before, after) labels; sentences have 1 token or more."""
    name = st.sampled_from(labels.names)
    sentence = st.lists(st.tuples(name, name, name), min_size=1, max_size=7)
    return st.lists(st.lists(sentence, max_size=4), max_size=4)


def arrays(labels: LabelSet, documents: Corpus) -> tuple[list[Labels], NDArray[np.int64], NDArray[np.int64]]:
    """The three labellings (N,), sentence starts (S,) and document starts (D + 1,)."""
    rows = [token for document in documents for sentence in document for token in sentence]
    ids = [labels.encode([row[i] for row in rows]) for i in range(3)]
    lengths = [len(sentence) for document in documents for sentence in document]
    starts = np.concatenate([[0], np.cumsum(lengths)])[:-1].astype(np.int64) if lengths else np.zeros(0, np.int64)
    sizes = [sum(len(sentence) for sentence in document) for document in documents]
    return ids, starts, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def batch_of(labels: LabelSet, documents: Corpus) -> Batch:
    """A batch with one word for all tokens, and with the spans of gold in characters."""
    (gold, *_), starts, docs = arrays(labels, documents)
    words = Column(np.zeros(int(docs[-1]), np.int32), ["ab1"])
    within = np.arange(docs[-1]) - np.repeat(docs[:-1], np.diff(docs))
    batch = Batch(
        tuple(f"d{i}" for i in range(len(documents))),
        docs,
        starts,
        {"tokens": words},
        raw=TokenizedTexts(
            ["ab1 " * size for size in np.diff(docs).tolist()],
            (4 * within).astype(np.int32),
            (4 * within + 3).astype(np.int32),
        ),
    )
    return replace(batch, source_spans=SourceSpans.said(batch, labels.spans(gold, starts), labels.types))


def slow_spans(names: list[str], *, plain: bool) -> set[tuple[int, int, str]]:
    """The spans of one sentence, grown one token at a time."""
    spans: set[tuple[int, int, str]] = set()
    open_span: tuple[int, str] | None = None
    for position, name in enumerate([*names, "O"]):
        kind = name if plain else name[2:]
        goes_on = open_span is not None and kind == open_span[1] and name != "O" and not name.startswith("B-")
        if goes_on:
            continue
        if open_span is not None:
            spans.add((open_span[0], position, open_span[1]))
        open_span = None if name == "O" else (position, kind)
    return spans


def spans_of(documents: Corpus, column: int, *, plain: bool = False) -> set[Span]:
    return {
        (d, s, *span)
        for d, document in enumerate(documents)
        for s, sentence in enumerate(document)
        for span in slow_spans([token[column] for token in sentence], plain=plain)
    }


def tallied(spans: Iterable[Span], kind: str) -> int:
    return sum(span[-1] == kind for span in spans)


@given(st.data())
@pytest.mark.parametrize("labels", [BIO, PLAIN], ids=["bio", "plain"])
def test_entity_counts_equal_sets_of_spans(labels: LabelSet, data: st.DataObject) -> None:
    documents = data.draw(corpora(labels))
    (gold, predicted, _), sentences, _ = arrays(labels, documents)
    counts = EntityCounts.of(gold, predicted, labels, sentences)
    plain = labels.scheme is Scheme.PLAIN
    wanted, given_ = (spans_of(documents, i, plain=plain) for i in (0, 1))
    assert counts.names == tuple(sorted(labels.types))
    for kind in labels.types:
        assert counts.row(kind) == {
            "gold": tallied(wanted, kind),
            "predicted": tallied(given_, kind),
            "correct": tallied(wanted & given_, kind),
        }


@given(corpora(BIO))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_figures_equal_seqeval(documents: Corpus) -> None:
    sentences = [sentence for document in documents for sentence in document]
    (gold, predicted, _), starts, _ = arrays(BIO, documents)
    counts = EntityCounts.of(gold, predicted, BIO, starts)
    wanted = [[token[0] for token in sentence] for sentence in sentences]
    given_ = [[token[1] for token in sentence] for sentence in sentences]
    if not counts.table.any():
        assert (counts.precision(), counts.recall(), counts.f1()) == (0.0, 0.0, 0.0)
        return
    expected = precision_recall_fscore_support(wanted, given_, average="micro", zero_division=0)
    assert (counts.precision(), counts.recall(), counts.f1()) == pytest.approx(expected[:3])
    by_type = precision_recall_fscore_support(wanted, given_, average=None, zero_division=0)
    in_gold = by_type[3] > 0
    for name, column in (("macro_precision", 0), ("macro_recall", 1), ("macro_f1", 2)):
        mean = by_type[column][in_gold].mean() if in_gold.any() else 0.0
        assert float(FIGURES[name](counts.table)) == pytest.approx(mean)
    flags = np.ones(len(documents), np.bool_)
    pair = Pair(batch_of(BIO, documents), BIO, gold, predicted)
    tally = Tally.of(pair, predicted, ["spans"], certified=flags, by_solver=flags, gaps=np.zeros(len(documents)))
    assert tally.report().token_accuracy == pytest.approx(accuracy_score(wanted, given_))


@pytest.mark.parametrize(
    ("gold", "predicted", "row"),
    [
        ([], [], (0, 0, 0)),
        (["O"], ["O"], (0, 0, 0)),
        (["B-PER"], ["B-PER"], (1, 1, 1)),
        (["B-PER"], ["I-PER"], (1, 1, 1)),
        (["O", "B-PER"], ["O", "I-PER"], (1, 1, 1)),
        (["B-PER", "I-PER"], ["B-PER", "B-PER"], (1, 2, 0)),
        (["B-PER", "I-PER"], ["B-LOC", "I-PER"], (1, 1, 0)),
        (["B-PER", "B-PER"], ["B-PER", "I-PER"], (2, 1, 0)),
    ],
)
def test_entity_counts_by_hand(gold: list[str], predicted: list[str], row: tuple[int, int, int]) -> None:
    starts = np.zeros(min(1, len(gold)), np.int64)
    counts = EntityCounts.of(BIO.encode(gold), BIO.encode(predicted), BIO, starts)
    assert tuple(counts.row("PER").values()) == row


def test_a_sentence_boundary_ends_an_entity() -> None:
    gold, predicted = BIO.encode(["B-PER", "I-PER"]), BIO.encode(["B-PER", "B-PER"])
    assert EntityCounts.of(gold, predicted, BIO, np.array([0, 1])).row("PER")["correct"] == 2


@given(corpora(BIO))
def test_shards_merge_in_any_order(documents: Corpus) -> None:
    tallies = []
    for i, document in enumerate(documents[:3]):
        seen = {name for sentence in document for token in sentence for name in token}
        labels = LabelSet.infer(seen | {"B-PER"})
        (gold, before, after), _, _ = arrays(labels, [document])
        flag = np.array([i % 2 == 0])
        gap = np.array([float(i)])
        pair = Pair(batch_of(labels, [document]), labels, gold, after)
        tallies.append(Tally.of(pair, before, list(MEASURES), certified=flag, by_solver=flag, gaps=gap))
    (gold, before, after), _, _ = arrays(BIO, documents[:3])
    flags = np.arange(len(tallies)) % 2 == 0
    gaps = np.arange(len(tallies), dtype=float)
    pair = Pair(batch_of(BIO, documents[:3]), BIO, gold, after)
    whole = Tally.of(pair, before, list(MEASURES), certified=flags, by_solver=flags, gaps=gaps)
    for order in permutations(tallies):
        tally = sum(order, Tally.empty(list(MEASURES)))
        assert tally.report() == whole.report()
        assert tally.token_changes.total("fixed") == whole.token_changes.total("fixed")


@given(corpora(BIO))
def test_entity_changes_equal_sets_of_spans(documents: Corpus) -> None:
    (gold, before, after), sentences, _ = arrays(BIO, documents)
    changes = EntityChanges.of(gold, before, after, BIO, sentences)
    wanted, old, new = (spans_of(documents, i) for i in range(3))
    for kind in BIO.types:
        assert changes.row(kind) == {
            "fixed": tallied((new - old) & wanted, kind),
            "broken": tallied((old - new) & wanted, kind),
            "removed": tallied(old - new - wanted, kind),
            "added": tallied(new - old - wanted, kind),
        }
    difference = changes.total("fixed") - changes.total("broken")
    assert difference == len(new & wanted) - len(old & wanted)


@given(corpora(BIO))
def test_token_changes_token_by_token(documents: Corpus) -> None:
    (gold, before, after), _, _ = arrays(BIO, documents)
    expected = {name: {"fixed": 0, "broken": 0, "both_wrong": 0} for name in sorted([*BIO.types, "O"])}
    for document in documents:
        for right, old, new in (token for sentence in document for token in sentence):
            if old != new:
                kind = "fixed" if new == right else "broken" if old == right else "both_wrong"
                expected[right if right == "O" else right[2:]][kind] += 1
    assert TokenChanges.of(gold, before, after, BIO).as_dict() == expected


def test_token_changes_of_plain_labels() -> None:
    gold, before, after = (PLAIN.encode(n) for n in (["author", "date"], ["author", "title"], ["title", "date"]))
    changes = TokenChanges.of(gold, before, after, PLAIN)
    assert changes.row("author") == {"fixed": 0, "broken": 1, "both_wrong": 0}
    assert changes.row("date") == {"fixed": 1, "broken": 0, "both_wrong": 0}


def test_counts_of_names_that_differ() -> None:
    first = MatchCounts.of_columns(["b", "a"], [np.array([1, 2])] * 3)
    second = MatchCounts.of_columns(["c", "b"], [np.array([5, 7])] * 3)
    merged = first + second
    assert merged.names == ("a", "b", "c")
    assert merged.table[:, 0].tolist() == [2, 8, 5]
    assert merged.row("never seen") == {"gold": 0, "predicted": 0, "correct": 0}


@given(st.lists(st.tuples(st.sampled_from(BIO.names), st.sampled_from(["O", "B-MISC", "B-LOC"])), max_size=8))
def test_columns_of_different_dictionaries_share_a_label_set(rows: list[tuple[str, str]]) -> None:
    columns = [Column.encode(["I-unused", *(row[i] for row in rows)])[1:] for i in (0, 1)]
    labels, ids = shared_label_ids(*columns)
    assert [labels.decode(part) for part in ids] == [[row[i] for row in rows] for i in (0, 1)]
    assert "unused" not in labels.types


def test_bad_input_is_refused() -> None:
    starts = np.zeros(1, np.int64)
    with pytest.raises(ValueError, match="differ in length"):
        EntityCounts.of(BIO.encode(["O"]), BIO.encode(["O", "O"]), BIO, starts)
    with pytest.raises(ValueError, match="sorted and distinct"):
        MatchCounts(("b", "a"), np.zeros((2, 3), np.int64))
    with pytest.raises(ValueError, match=r"want \(1, 3\)"):
        MatchCounts(("a",), np.zeros((1, 2), np.int64))
    one, flag, batch = BIO.encode(["O"]), np.ones(1, np.bool_), batch_of(BIO, [[[("O", "O", "O")]]])
    with pytest.raises(ValueError, match="one of each a document"):
        Tally.of(Pair(batch, BIO, one, one), one, [], certified=flag, by_solver=flag, gaps=np.zeros(2))
    with pytest.raises(ValueError, match="differ in length"):
        Tally.of(Pair(batch, BIO, one, one[:0]), one, ["labels"], certified=flag, by_solver=flag, gaps=np.zeros(1))


def test_the_report_is_json_with_fractions() -> None:
    rows = [("B-PER", "O", "B-PER"), ("O", "O", "O")], [("B-LOC", "B-LOC", "B-ORG")]
    documents = [[sentence] for sentence in rows]
    (gold, before, after), _, _ = arrays(BIO, documents)
    tally = Tally.of(
        Pair(batch_of(BIO, documents), BIO, gold, after),
        before,
        ["spans"],
        certified=np.array([True, False]),
        by_solver=np.array([True, False]),
        gaps=np.array([0.0, math.inf]),
    )
    found = json.loads(tally.report().model_dump_json())
    spans = found.pop("measures")["spans"]
    assert found == {
        "documents": 2,
        "tokens": 3,
        "certified": 0.5,
        "by_solver": 0.5,
        "max_gap": None,
        "token_accuracy": pytest.approx(2 / 3),
        "against": None,
    }
    assert spans["figures"] == dict.fromkeys(MEASURES["spans"].figures, 0.5)
    assert spans["viterbi"]["recall"] == 0.5
    assert spans["viterbi"]["precision"] == 1.0
    right = {"precision": 1.0, "recall": 1.0, "f1": 1.0, "gold": 1, "predicted": 1, "correct": 1}
    assert spans["names"]["PER"] == right
    assert sorted(spans["names"]) == ["LOC", "ORG", "PER"]


def test_the_report_of_nothing_is_zero() -> None:
    report = Tally.empty(["spans"]).report()
    assert (report.documents, report.certified, report.max_gap, report.token_accuracy) == (0, 0.0, 0.0, 0.0)
    assert report.measures["spans"].names == {}
    assert set(report.measures["spans"].figures.values()) == {0.0}
