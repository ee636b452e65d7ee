"""Contract tests of measures, against a plain count of the items in one labelling of one document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from concord.schemas.document import Batch, Column, Document, SourceSpans, TokenizedText
from concord.schemas.labels import LabelSet, Scheme
from concord.testing.expect import expect, expect_same
from concord.workers.evaluation.figures import FIGURES
from concord.workers.evaluation.measures import Measure, Pair

MEASURED_BIO = LabelSet.bio(["PER", "LOC"])
MEASURED_PLAIN = LabelSet(("O", "author", "date"), Scheme.PLAIN)


class Token(NamedTuple):
    """A word with the numbers of its sentence and of its line, its gold label and its predicted label."""

    word: str
    sentence: int
    line: int
    gold: str
    predicted: str


Text: TypeAlias = list[Token]

CharacterSpan: TypeAlias = tuple[int, int, str]
"""First character, the character after the last one, type."""

Things: TypeAlias = "Counter[tuple[str, object]]"
"""Counts of (name, item)."""

Plain: TypeAlias = Callable[[Text, str], Things]
"""Function of a document and of "gold" or "predicted": the items of that labelling."""

MEASURED_WORDS = ("a", "b2", "--", "é-7")


def check_measure(measure: Measure, plain: Plain, *, draws: int = 50) -> None:
    """Compares counts of random documents with a plain count, and checks the figures that follow from them.

    Raises `AssertionError` at a broken promise.
    """
    rng = np.random.default_rng(0)
    for labels in (MEASURED_BIO, MEASURED_PLAIN):
        nothing_is_counted_in_nothing(measure, labels)
        for _ in range(draws):
            documents = [random_text(rng, labels) for _ in range(int(rng.integers(1, 5)))]
            counts_are_those_of_a_plain_loop(measure, plain, labels, documents)
            parts_add_up(measure, labels, documents, int(rng.integers(0, len(documents) + 1)))
            perfect_labels_give_one(measure, labels, documents)


def random_text(rng: np.random.Generator, labels: LabelSet) -> Text:
    """Random document of 1 to 6 tokens; the ends of sentences and of lines are drawn independently."""
    text: Text = []
    sentence = line = 0
    for position in range(int(rng.integers(1, 7))):
        sentence += int(position > 0 and rng.random() < 0.25)
        line += int(position > 0 and rng.random() < 0.25)
        gold, predicted = (labels.names[rng.integers(len(labels))] for _ in range(2))
        text.append(Token(MEASURED_WORDS[rng.integers(len(MEASURED_WORDS))], sentence, line, gold, predicted))
    return text


def written(text: Text) -> tuple[str, list[tuple[int, int]]]:
    """The text, and for each word its first character and the character after its last one."""
    whole, places = "", []
    for i, token in enumerate(text):
        whole += "\n" if i and token.line > text[i - 1].line else " " if i else ""
        places.append((len(whole), len(whole) + len(token.word)))
        whole += token.word
    return whole, places


def document(number: int, text: Text, source: list[CharacterSpan], *, offsets: bool) -> Document:
    """The document; with its text and the spans of its source if it has ``offsets``."""
    words = [token.word for token in text]
    starts = [i for i, token in enumerate(text) if i == 0 or token.sentence > text[i - 1].sentence]
    columns = {"tokens": Column.encode(words)}
    whole, places = written(text)
    bounds = np.array(places, np.int32)
    layout = (TokenizedText(whole, bounds[:, 0], bounds[:, 1]), None, SourceSpans.of(source)) if offsets else ()
    return Document(f"d{number}", np.array(starts, np.int64), columns, None, *layout)


def pair_of(
    labels: LabelSet, documents: list[Text], *, offsets: bool = True, source: list[list[CharacterSpan]] | None = None
) -> Pair:
    """Pair of the gold and predicted labellings of some documents; ``source`` spans are those of gold by default."""
    if source is None:
        source = [character_spans(text, "gold") for text in documents]
    rows = enumerate(zip(documents, source, strict=True))
    batch = Batch.of([document(i, text, spans, offsets=offsets) for i, (text, spans) in rows])
    gold, predicted = (
        labels.encode([getattr(token, side) for text in documents for token in text]) for side in ("gold", "predicted")
    )
    return Pair(batch, labels, gold, predicted)


def kind_of(label: str) -> str:
    """The type of a label; "" for outside."""
    return "" if label == "O" else label[2:] if label[:2] in ("B-", "I-") else label


def plain_spans(text: Text, side: str) -> Things:
    """Spans of a labelling: (type, (first token, last token))."""
    spans: Things = Counter()
    start = 0
    for i, token in enumerate(text):
        label = getattr(token, side)
        after = text[i + 1] if i + 1 < len(text) else None
        following = getattr(after, side) if after else "O"
        if (
            after is None
            or after.sentence > token.sentence
            or kind_of(following) != kind_of(label)
            or following.startswith("B-")
        ):
            if kind_of(label):
                spans[kind_of(label), (start, i)] = 1
            start = i + 1
    return spans


def character_spans(text: Text, side: str) -> list[CharacterSpan]:
    """Spans of a labelling by characters."""
    _, places = written(text)
    spans = [(name, which) for name, which in plain_spans(text, side) if isinstance(which, tuple)]
    return [(places[first][0], places[last][1], name) for name, (first, last) in spans]


def plainly(plain: Plain, documents: Sequence[Text]) -> list[dict[str, list[int]]]:
    """Counts of gold, predicted and both, by name, for each document."""
    rows = []
    for text in documents:
        gold, predicted = (plain(text, side) for side in ("gold", "predicted"))
        row: dict[str, list[int]] = {}
        for column, things in enumerate((gold, predicted, gold & predicted)):
            for (name, _), count in things.items():
                row.setdefault(name, [0, 0, 0])[column] += count
        rows.append(row)
    return rows


def _counted(measure: Measure, pair: Pair) -> list[dict[str, list[int]]]:
    items = measure.items(pair)
    return [
        {name: row for name, row in zip(items.names, table, strict=True) if any(row)}
        for table in items.by_document().tolist()
    ]


def _total(measure: Measure, pair: Pair) -> Mapping[str, list[int]]:
    counts = measure.items(pair).total()
    return {name: row for name, row in zip(counts.names, counts.table.tolist(), strict=True) if any(row)}


def counts_are_those_of_a_plain_loop(measure: Measure, plain: Plain, labels: LabelSet, documents: list[Text]) -> None:
    """The counts of each document and name are those of the plain count."""
    expected = [{name: row for name, row in one.items() if any(row)} for one in plainly(plain, documents)]
    expect_same(_counted(measure, pair_of(labels, documents)), expected, f"gold, predicted, both of {documents}")


def parts_add_up(measure: Measure, labels: LabelSet, documents: list[Text], cut: int) -> None:
    """Counts of the documents before and after ``cut`` add up to those of all, and so do those of single documents."""
    whole = dict(_total(measure, pair_of(labels, documents)))
    together: dict[str, list[int]] = {}
    for part in filter(None, (documents[:cut], documents[cut:])):
        for name, row in _total(measure, pair_of(labels, part)).items():
            together[name] = [a + b for a, b in zip(together.get(name, [0, 0, 0]), row, strict=True)]
    expect_same(together, whole, f"the sum over parts of {documents}, cut at {cut}")
    rows: dict[str, list[int]] = {}
    for one in _counted(measure, pair_of(labels, documents)):
        for name, row in one.items():
            rows[name] = [a + b for a, b in zip(rows.get(name, [0, 0, 0]), row, strict=True)]
    expect_same(rows, whole, f"the sum over documents of {documents}")


def perfect_labels_give_one(measure: Measure, labels: LabelSet, documents: list[Text]) -> None:
    """Each figure of perfect labels is 1; 0 if gold has no items."""
    right = [[token._replace(predicted=token.gold) for token in text] for text in documents]
    counts = measure.items(pair_of(labels, right)).total()
    expected = 1.0 if counts.total("gold") else 0.0
    for name in measure.figures:
        expect_same(float(FIGURES[name](counts.table)), expected, f"{name} of perfect labels of {right}")


def nothing_is_counted_in_nothing(measure: Measure, labels: LabelSet) -> None:
    """Without documents all counts and figures are 0."""
    none = np.zeros(0, np.int32)
    counts = measure.items(Pair(Batch.of([]), labels, none, none)).total()
    expect(not counts.table.any(), "nothing is counted in no documents")
    for name in measure.figures:
        expect_same(float(FIGURES[name](counts.table)), 0.0, f"{name} of nothing")
