"""Rows written out term by term, Stokman (2011) eq. 51 and table 2, and the label set's own legality."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import ClassVar, Literal

import numpy as np
from pydantic import FiniteFloat, model_validator

from schemas.problem import LinearRows
from schemas.settings import Settings
from workers.constraints.rows import (
    Ints,
    Part,
    edges_in,
    forbidden_edges,
    forbidden_labels,
    laid_out,
    merged,
    tokens_in,
)
from workers.constraints.template import Location, Names, RowTemplate, Scope, Site, Tokens


class Sense(StrEnum):
    """How the sum compares with the bound."""

    AT_MOST = "<="
    AT_LEAST = ">="
    EQUAL = "=="


Each = Literal["document", "sentence", "token"]
"""What there is a row for."""


class Term(Settings):
    """coefficient · 1[y_{t−1} ∈ previous ∧ y_t ∈ label]; without ``previous`` a token label.

    In a row a token, t is that token plus ``offset``; otherwise the term is summed over all t of
    the scope that pass ``tokens``.
    """

    label: Names
    previous: Names | None = None
    coefficient: FiniteFloat = 1.0
    offset: int = 0
    tokens: Tokens | None = None


class Linear(RowTemplate):
    """Σ of terms ``sense`` ``bound``, a row each document, sentence or token.

    Degree: how far the sum is beyond the bound, eq. 56; an equality is two rows. A row a token
    stands at tokens that pass ``tokens``, and only where every term's token (and with ``previous``
    the one before it) lies in the same sentence.
    """

    terms: tuple[Term, ...]
    sense: Sense = Sense.AT_MOST
    bound: FiniteFloat = 0.0
    each: Each = "document"
    tokens: Tokens | None = None

    @model_validator(mode="after")
    def _offsets_and_tests_have_a_token(self) -> Linear:
        if not self.terms:
            raise ValueError("a row needs a term")
        if self.each != "token" and any(term.offset for term in self.terms):
            raise ValueError("an offset needs a row a token (each: token)")
        if self.each != "token" and self.tokens is not None:
            raise ValueError("tokens of the whole entry need a row a token (each: token); or test in a term")
        if self.each == "token" and any(term.tokens is not None for term in self.terms):
            raise ValueError("in a row a token the test belongs to the entry, not to a term")
        return self

    def named_labels(self) -> Iterator[tuple[Location, str]]:
        """The labels of all terms."""
        for i, term in enumerate(self.terms):
            for field, names in (("label", term.label), ("previous", term.previous or ())):
                yield from ((("terms", i, field, k), name) for k, name in enumerate(names))

    def rows(self, site: Site) -> LinearRows:
        """Rows as described, two each for an equality."""
        count, places = self._anchored(site) if self.each == "token" else self._summed(site)
        signs = {Sense.AT_MOST: (1.0,), Sense.AT_LEAST: (-1.0,), Sense.EQUAL: (1.0, -1.0)}[self.sense]
        return LinearRows.join([self._signed(site, count, places, sign) for sign in signs])

    def _signed(self, site: Site, count: int, places: list[tuple[Ints, Ints]], sign: float) -> LinearRows:
        terms = zip(self.terms, places, strict=True)
        parts = [_entries(site, term, row, at, sign) for term, (row, at) in terms]
        return merged(laid_out(np.full(count, sign * self.bound), parts))

    def _summed(self, site: Site) -> tuple[int, list[tuple[Ints, Ints]]]:
        scope = Scope(self.each)
        segment = site.segment(scope)
        places = []
        for term in self.terms:
            fits = site.mask(term.tokens)
            if term.previous is not None:
                fits = fits & ~site.starts_sentence
            at = np.flatnonzero(fits)
            places.append((segment[at], at))
        return len(site.bounds(scope)[0]), places

    def _anchored(self, site: Site) -> tuple[int, list[tuple[Ints, Ints]]]:
        starts, ends = site.bounds(Scope.SENTENCE)
        sentence = site.segment(Scope.SENTENCE)
        first, last = starts[sentence], ends[sentence]
        fits = site.mask(self.tokens)
        for term in self.terms:
            needed = site.positions + term.offset
            fits = fits & (needed - (term.previous is not None) >= first) & (needed < last)
        at = np.flatnonzero(fits)
        return len(at), [(np.arange(len(at)), at + term.offset) for term in self.terms]


def _entries(site: Site, term: Term, row: Ints, at: Ints, sign: float) -> Part:
    label = site.mask_of(term.label)
    if term.previous is None:
        return tokens_in(row, at, label, sign * term.coefficient)
    return edges_in(row, at, np.outer(site.mask_of(term.previous), label), sign * term.coefficient)


class Legality(RowTemplate):
    """Every label sequence is one the label set can encode (BIO: no ``I-T`` without its ``B-T``).

    A row for each token: illegal edges into it (illegal first labels at a sentence's start) ≤ 0.
    Degree: tokens with an illegal label. Every problem has legality hard in its potentials;
    declaring it counts it in reports. A plain label set has no rows.
    """

    label_fields: ClassVar[tuple[str, ...]] = ()

    def rows(self, site: Site) -> LinearRows:
        """One row a token."""
        labels = site.labels
        if labels.legal_transition.all() and labels.legal_start.all():
            return LinearRows.none()
        first = forbidden_labels(site.document.sentence_starts, ~labels.legal_start)
        return LinearRows.join([first, forbidden_edges(site.inner, ~labels.legal_transition)])
