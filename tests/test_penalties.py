"""Counted weights against counts made by hand."""

from __future__ import annotations

import math

import pytest

from schemas.document import Document
from schemas.labels import LabelSet, Scheme
from workers.constraints.declared import DeclaredConstraints
from workers.constraints.templates.features import TokenFeature
from workers.constraints.templates.presence import StartsWith
from workers.constraints.templates.runs import AppearsOnce
from workers.constraints.templates.words import Lexicon
from workers.learning.penalties import count_weights, with_weights

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


def test_counts_by_hand() -> None:
    counts = count_weights(DECLARED, DOCUMENTS, LABELS)
    assert list(counts) == ["starts_with(author)", "once", "lexicon(date)"]
    assert counts["starts_with(author)"][:3] == (3, 1, 1.0)
    assert counts["starts_with(author)"].weight == pytest.approx(math.log(2.5 / 1.5))
    assert counts["once"][:3] == (3, 1, 2.0)
    assert counts["once"].weight == pytest.approx(math.log(2.5 / 1.5) / 2)
    assert counts["lexicon(date)"][:3] == (5, 1, 1.0)
    assert counts["lexicon(date)"].weight == pytest.approx(math.log(4.5 / 1.5))


def test_what_gold_breaks_more_than_keeps_weighs_nothing_and_what_it_never_breaks_stays_soft() -> None:
    counts = count_weights(DECLARED, DOCUMENTS[1:2], LABELS)
    assert counts["starts_with(author)"].weight == 0.0
    assert counts["lexicon(date)"].weight == pytest.approx(math.log(3.5 / 0.5))


def test_weights_replace_soft_ones_by_name() -> None:
    new = with_weights(DECLARED, {"lexicon(date)": 0.25, "once": 3.0})
    assert [t.weight for t in new.templates] == [1.0, -1.0, math.inf, 0.25]  # type: ignore[attr-defined]
    assert new.titles == DECLARED.titles
    assert new.names == DECLARED.names


def test_documents_without_gold_are_refused() -> None:
    with pytest.raises(ValueError, match="'x' has no gold labels"):
        count_weights(DECLARED, [Document.build("x", [["may"]])], LABELS)
