"""Counted weights against counts made by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.document import Batch, Document
from schemas.labels import LabelSet, Scheme
from workers.constraints.declared import DeclaredConstraints
from workers.constraints.templates.features import TokenFeature
from workers.constraints.templates.order import Adjacency
from workers.constraints.templates.presence import StartsWith
from workers.constraints.templates.runs import AppearsOnce
from workers.constraints.templates.words import Lexicon
from workers.learning.penalties import (
    PENALTIES,
    PenaltySettings,
    RowCounts,
    count_rows,
    fersini,
    odds,
    wilson,
    with_weights,
)

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


AS_COUNTED = PenaltySettings()


def counted(*documents: Document) -> dict[str, RowCounts]:
    return count_rows(DECLARED, [Batch.of(list(documents))], LABELS)


def test_counts_by_hand() -> None:
    counts = counted(*DOCUMENTS)
    assert list(counts) == ["starts_with(author)", "once", "lexicon(date)"]
    assert counts["starts_with(author)"] == (3, 0, 1, 1.0)
    assert counts["starts_with(author)"].weight(odds, AS_COUNTED) == pytest.approx(math.log(2.5 / 1.5))
    assert counts["once"] == (2, 1, 1, 2.0), "the last document has no date at all"
    assert counts["once"].weight(odds, AS_COUNTED) == 0.0
    assert counts["lexicon(date)"] == (5, 0, 1, 1.0)
    assert counts["lexicon(date)"].weight(odds, AS_COUNTED) == pytest.approx(math.log(4.5 / 1.5))


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
    assert counts["next"].weight(odds, AS_COUNTED) == 0.0


def test_what_gold_breaks_more_than_keeps_weighs_nothing_and_what_it_never_breaks_stays_soft() -> None:
    counts = counted(DOCUMENTS[1])
    assert counts["starts_with(author)"].weight(odds, AS_COUNTED) == 0.0
    assert counts["lexicon(date)"].weight(odds, AS_COUNTED) == pytest.approx(math.log(3.5 / 0.5))


def test_imagined_rows_make_what_was_seldom_seen_strong_and_fade_with_what_was_seen() -> None:
    held = PenaltySettings(held=50.0)
    assert odds(5, 0, held) - odds(5, 0, AS_COUNTED) == pytest.approx(math.log(55.5 / 5.5))
    assert odds(5000, 0, held) - odds(5000, 0, AS_COUNTED) < 0.01


def test_the_surprise_of_a_broken_row_grows_as_they_get_rarer() -> None:
    assert fersini(9, 2, AS_COUNTED) == pytest.approx(math.log(4.0))
    assert fersini(99, 0, AS_COUNTED) == pytest.approx(math.log(200.0))


@pytest.mark.parametrize("name", PENALTIES)
def test_penalties_are_never_negative_and_fall_with_the_broken_share(name: str) -> None:
    found = [PENALTIES[name](40.0, b / 2, AS_COUNTED) for b in range(81)]
    assert min(found) >= 0.0
    assert all(after <= before for before, after in itertools.pairwise(found))


@given(st.integers(0, 300), st.integers(0, 300), st.floats(1.0, 4.0))
def test_intervals_hold_the_weight_and_the_share(broken: int, more: int, units: float) -> None:
    rows = broken + more
    counts = RowCounts(rows, 3, broken, broken * units)
    low, high = wilson(broken, rows)
    share = broken / rows if rows else 0.5
    assert 0.0 <= low <= share <= high <= 1.0
    for penalty in (odds, fersini):
        least, most = counts.interval(penalty, AS_COUNTED)
        assert least <= counts.weight(penalty, AS_COUNTED) + 1e-12
        assert counts.weight(penalty, AS_COUNTED) <= most + 1e-12


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
