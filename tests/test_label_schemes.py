"""Labels of other schemes as BIO, against encoders of spans and an enumeration of what a scheme allows."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concord.schemas.labels import LabelError, LabelSet, Scheme, broken_span, to_bio

TYPES = ("X", "Y")
SCHEMES = {"bio": "BII", "iob1": "III", "bioes": "BIES", "bilou": "BILU"}
"""How a span's first, inner and last token are marked, and a span of one token."""

Segments = list[tuple[int, str]]
"""Runs of tokens: how many, and the type of the span that they are, or ``O``."""


class Marks(NamedTuple):
    first: str
    inner: str
    last: str
    single: str


def encoded(segments: Segments, scheme: str) -> list[str]:
    """Spans written token by token, by the scheme's definition."""
    marks = Marks(*SCHEMES[scheme].ljust(4, "?"))
    if scheme in ("bio", "iob1"):
        marks = marks._replace(single=marks.first)
    names: list[str] = []
    before = "O"
    for length, kind in segments:
        if kind == "O":
            names += ["O"] * length
        else:
            first, single = ("B", "B") if scheme == "iob1" and before == kind else (marks.first, marks.single)
            inner = [f"{marks.inner}-{kind}"] * (length - 2)
            names += [f"{single}-{kind}"] if length == 1 else [f"{first}-{kind}", *inner, f"{marks.last}-{kind}"]
        before = kind
    return names


segments = st.lists(st.tuples(st.integers(1, 4), st.sampled_from(("O", *TYPES))), max_size=6)


@pytest.mark.parametrize("scheme", SCHEMES)
@given(spans=segments)
def test_every_scheme_comes_out_as_bio(scheme: str, spans: Segments) -> None:
    names = encoded(spans, scheme)
    assert broken_span(names) is None
    assert to_bio(names) == encoded(spans, "bio")


def test_a_sentence_is_broken_where_no_spans_are_written_so() -> None:
    """All sequences of four tags: those that BIOES allows are the encodings of all ways to cut four tokens."""
    tags = ["O", *(f"{mark}-{kind}" for mark in "BIES" for kind in TYPES)]
    cuts = [
        list(zip(lengths, kinds, strict=True))
        for count in range(1, 5)
        for lengths in product(range(1, 5), repeat=count)
        if sum(lengths) == 4
        for kinds in product(("O", *TYPES), repeat=count)
    ]
    allowed = {tuple(encoded(cut, "bioes")) for cut in cuts}
    told = [names for names in product(tags, repeat=4) if any(name[0] in "ES" for name in names)]
    assert all((broken_span(names) is None) == (names in allowed) for names in told)
    assert len(allowed.intersection(told)) > 100


@pytest.mark.parametrize(
    ("names", "position"),
    [
        (["O", "E-X"], 1),
        (["B-X", "O", "S-Y"], 1),
        (["B-X", "E-Y"], 1),
        (["S-X", "B-X"], 1),
        (["U-X", "L-X"], 1),
        (["I-X", "E-X"], 0),
    ],
)
def test_the_first_label_that_its_neighbours_forbid(names: list[str], position: int) -> None:
    assert broken_span(names) == position


@pytest.mark.parametrize("scheme", [Scheme.BIO, Scheme.LOOSE])
def test_a_label_set_with_half_a_type_says_what_it_lacks(scheme: Scheme) -> None:
    with pytest.raises(LabelError, match="no 'B-X', and spans need B-TYPE and I-TYPE"):
        _ = LabelSet(("O", "I-X"), scheme).first_labels
    with pytest.raises(LabelError, match="no 'I-Y'"):
        _ = LabelSet(("O", "B-Y"), scheme).inside
