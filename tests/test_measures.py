"""Every measure of the registry: parts add up, perfect labels give 1, and a plain loop counts the same."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from concord.schemas.document import Batch
from concord.schemas.errors import UsageError
from concord.schemas.labels import LabelSet
from concord.testing.measures import (
    MEASURED_BIO,
    MEASURED_PLAIN,
    Plain,
    Text,
    Things,
    Token,
    character_spans,
    check_measure,
    counts_are_those_of_a_plain_loop,
    kind_of,
    pair_of,
    parts_add_up,
    perfect_labels_give_one,
    plain_spans,
    plainly,
    written,
)
from concord.workers.evaluation.figures import FIGURES
from concord.workers.evaluation.measures import (
    DEFAULTS,
    MEASURES,
    Items,
    MeasureError,
    Pair,
    by_document,
    check_measures,
    figures,
    measured,
    suggested,
)
from concord.workers.evaluation.named_counts import MatchCounts


@st.composite
def texts(draw: st.DrawFn, labels: LabelSet) -> list[Text]:
    """Documents of 1 to 6 tokens; sentences and lines end here and there, each by itself."""
    name = st.sampled_from(labels.names)
    word = st.sampled_from(["a", "b2", "--", "é-7"])
    breaks = st.integers(0, 3).map(lambda n: n == 0)
    documents = []
    for _ in range(draw(st.integers(1, 4))):
        sentence = line = 0
        text: Text = []
        for position in range(draw(st.integers(1, 6))):
            sentence += int(position > 0 and draw(breaks))
            line += int(position > 0 and draw(breaks))
            text.append(Token(draw(word), sentence, line, draw(name), draw(name)))
        documents.append(text)
    return documents


# Second, plain implementations: what one labelling of one document has, each thing with its name and its size


def plain_labels(text: Text, side: str) -> Things:
    return Counter({(getattr(token, side), i): 1 for i, token in enumerate(text)})


def plain_tokens(text: Text, side: str) -> Things:
    kinds = [kind_of(getattr(token, side)) for token in text]
    return Counter({(kind, i): 1 for i, kind in enumerate(kinds) if kind})


def plain_characters(text: Text, side: str) -> Things:
    sizes = [len([letter for letter in token.word if letter.isalnum()]) for token in text]
    return Counter({thing: sizes[thing[1]] for thing in plain_tokens(text, side)})  # type: ignore[call-overload]


def plain_offsets(text: Text, side: str) -> Things:
    return Counter({(name, (start, end)): 1 for start, end, name in character_spans(text, side)})


def plain_lines(text: Text, side: str) -> Things:
    return Counter({(kind, text[i].line): 1 for kind, i in plain_tokens(text, side)})  # type: ignore[call-overload]


def plain_documents(text: Text, side: str) -> Things:
    return Counter({("documents", tuple(getattr(token, side) for token in text)): 1})


PLAINLY: dict[str, Plain] = {
    "labels": plain_labels,
    "tokens": plain_tokens,
    "spans": plain_spans,
    "offsets": plain_offsets,
    "documents": plain_documents,
    "lines": plain_lines,
    "characters": plain_characters,
}


few = settings(max_examples=25)
"""Each for every measure and scheme."""
every = pytest.mark.parametrize("measure", MEASURES)
either = pytest.mark.parametrize("labels", [MEASURED_BIO, MEASURED_PLAIN], ids=["bio", "plain"])


def test_every_measure_is_counted_plainly_too() -> None:
    assert set(PLAINLY) == set(MEASURES)
    assert {name for entry in MEASURES.values() for name in entry.figures} == set(FIGURES)
    assert {name for names in DEFAULTS.values() for name in names} <= set(MEASURES)


@every
def test_every_measure_keeps_the_promises_that_authors_are_told(measure: str) -> None:
    check_measure(MEASURES[measure], PLAINLY[measure])


@every
@either
@few
@given(data=st.data())
def test_a_plain_loop_counts_the_same(measure: str, labels: LabelSet, data: st.DataObject) -> None:
    documents = data.draw(texts(labels))
    counts_are_those_of_a_plain_loop(MEASURES[measure], PLAINLY[measure], labels, documents)
    counts = by_document(measure, pair_of(labels, documents))
    assert counts.table.tolist() == [
        [row.get(name, [0, 0, 0]) for name in counts.names] for row in plainly(PLAINLY[measure], documents)
    ]


@every
@either
@few
@given(data=st.data())
def test_parts_add_up_to_the_whole(measure: str, labels: LabelSet, data: st.DataObject) -> None:
    documents = data.draw(texts(labels))
    parts_add_up(MEASURES[measure], labels, documents, data.draw(st.integers(0, len(documents))))
    whole = measured(pair_of(labels, documents), [measure])[measure]
    table = by_document(measure, pair_of(labels, documents)).table_of(whole.names)
    assert table.sum(axis=0).tolist() == whole.table.tolist()


@every
@either
@few
@given(data=st.data())
def test_perfect_labels_give_one(measure: str, labels: LabelSet, data: st.DataObject) -> None:
    documents = data.draw(texts(labels))
    perfect_labels_give_one(MEASURES[measure], labels, documents)


@every
@few
@given(documents=texts(MEASURED_PLAIN))
def test_figures_are_shares_and_agree_with_their_definitions(measure: str, documents: list[Text]) -> None:
    rows = plainly(PLAINLY[measure], documents)
    names = sorted({name for row in rows for name in row})
    sums = {name: [sum(row.get(name, [0, 0, 0])[k] for row in rows) for k in range(3)] for name in names}
    gold, predicted, correct = (sum(row[k] for row in sums.values()) for k in range(3))

    def share(part: float, of: float) -> float:
        return part / of if of else 0.0

    def f1(row: list[int]) -> float:
        precision, recall = share(row[2], row[1]), share(row[2], row[0])
        return share(2 * precision * recall, precision + recall)

    in_gold = [row for row in sums.values() if row[0]]
    wanted = {
        "accuracy": share(correct, gold),
        "overlap": share(correct, gold + predicted - correct),
        "precision": share(correct, predicted),
        "recall": share(correct, gold),
        "f1": f1([gold, predicted, correct]),
        "macro_precision": share(sum(share(row[2], row[1]) for row in in_gold), len(in_gold)),
        "macro_recall": share(sum(share(row[2], row[0]) for row in in_gold), len(in_gold)),
        "macro_f1": share(sum(map(f1, in_gold)), len(in_gold)),
    }
    found = figures(measure, measured(pair_of(MEASURED_PLAIN, documents), [measure])[measure])
    assert found == {name: pytest.approx(wanted[name]) for name in MEASURES[measure].figures}
    assert all(0.0 <= value <= 1.0 for value in found.values())


@few
@given(documents=texts(MEASURED_BIO))
def test_lines_of_documents_without_a_text_are_sentences(documents: list[Text]) -> None:
    lines = [[token._replace(line=token.sentence) for token in text] for text in documents]
    found = by_document("lines", pair_of(MEASURED_BIO, documents, offsets=False))
    wanted = by_document("lines", pair_of(MEASURED_BIO, lines))
    assert (found.names, found.table.tolist()) == (wanted.names, wanted.table.tolist())


@few
@given(data=st.data())
def test_spans_of_the_source_count_as_they_stand_there(data: st.DataObject) -> None:
    documents = data.draw(texts(MEASURED_BIO))
    names = st.sampled_from([*MEASURED_BIO.types, "LOST"])
    source = []
    for text in documents:
        bounds = st.integers(0, len(written(text)[0]))
        own = character_spans(text, "gold")
        others = data.draw(st.lists(st.tuples(bounds, bounds, names).map(lambda s: (min(s[:2]), max(s[:2]), s[2]))))
        kept = data.draw(st.lists(st.sampled_from(own))) if own else []
        source.append(kept + others)
    pair = pair_of(MEASURED_BIO, documents, source=source)
    counts = measured(pair, ["offsets"])["offsets"]
    rows = {name: [0, 0, 0] for name in {*MEASURED_BIO.types, *(span[2] for spans in source for span in spans)}}
    for text, spans in zip(documents, source, strict=True):
        wanted, given_ = set(spans), set(character_spans(text, "predicted"))
        for column, things in enumerate((wanted, given_, wanted & given_)):
            for *_, name in things:
                rows[name][column] += 1
    assert {name: list(row.values()) for name, row in counts.as_dict().items()} == rows


def test_what_has_no_spans_of_the_source_is_told_so() -> None:
    text = [Token("a", 0, 0, "B-PER", "B-PER")]
    assert suggested(MEASURED_BIO, pair_of(MEASURED_BIO, [text]).batch) == ("spans", "offsets")
    without = pair_of(MEASURED_BIO, [text], offsets=False)
    assert suggested(MEASURED_BIO, without.batch) == ("spans",)
    with pytest.raises(MeasureError, match=r"'d0' has no gold spans of characters .*another --measure"):
        measured(without, ["offsets"])


def test_the_mean_over_fields_is_the_papers() -> None:
    """Finkel et al. (2005) table 6: four fields, and the mean of their F1."""
    right = [9667, 9736, 8339, 8998]
    counts = MatchCounts.of_columns(
        ["stime", "etime", "speaker", "location"], [np.full(4, 10_000), np.full(4, 10_000), np.array(right)]
    )
    assert figures("tokens", counts)["macro_f1"] == pytest.approx(0.9185)


def test_a_label_that_gold_does_not_have_is_in_no_mean() -> None:
    counts = MatchCounts.of_columns(["a", "b"], [np.array([2, 0]), np.array([2, 3]), np.array([2, 0])])
    found = figures("labels", counts)
    assert (found["macro_f1"], found["macro_precision"]) == (1.0, 1.0)
    assert figures("tokens", counts)["precision"] == 0.4


def test_an_unknown_measure_is_named() -> None:
    with pytest.raises(UsageError, match="no measure is called 'lenght'; there are labels, tokens"):
        check_measures(["labels", "lenght"])


def test_nothing_is_counted_in_nothing() -> None:
    batch = Batch.of([])
    none = np.zeros(0, np.int32)
    for name, entry in MEASURES.items():
        items: Items = entry.items(Pair(batch, MEASURED_BIO, none, none))
        assert not items.total().table.any()
        assert set(figures(name, items.total()).values()) == {0.0}
