"""Rows written out term by term, Stokman (2011) eq. 51 and table 2, and the label set's own legality."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from enum import StrEnum
from typing import ClassVar, Literal

import numpy as np
from pydantic import model_validator

from concord.schemas.arrays import Floats, Ints, Mask
from concord.schemas.potentials import LARGEST_WEIGHT
from concord.schemas.problem import ANY
from concord.schemas.settings import Settings
from concord.workers.constraints.rows import Draft, Part, always, forbidden_edges, forbidden_labels, joined, wherever
from concord.workers.constraints.templates.template import (
    Count,
    Names,
    Number,
    RowTemplate,
    Scope,
    Site,
    Tokens,
)
from concord.workers.storage.lined_yaml import Location


class Sense(StrEnum):
    """Comparison of the sum with the bound."""

    AT_MOST = "<="
    AT_LEAST = ">="
    EQUAL = "=="


Each = Literal["document", "sentence", "token"]
"""Part of the corpus for which there is a row each."""


class Term(Settings):
    """coefficient · 1[y_{t−1} ∈ previous ∧ y_t ∈ label]; without ``previous`` a token label.

    If there is a row for each token, t is that token plus ``offset``. Otherwise the term is summed over all t of the
    scope that pass ``tokens``.
    """

    label: Names
    previous: Names | None = None
    coefficient: Number = 1.0
    offset: Count = 0
    tokens: Tokens | None = None


class Linear(RowTemplate):
    """Σ of terms ``sense`` ``bound``, with a row for each document, sentence or token.

    Degree: excess of the sum over the bound, eq. 56; an equality is two rows. Rows for tokens stand only at tokens that
    pass ``tokens``, and only if every term's token (and with ``previous`` the one before it) lies in the same sentence.
    """

    terms: tuple[Term, ...]
    sense: Sense = Sense.AT_MOST
    bound: Number = 0.0
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

    @model_validator(mode="after")
    def _no_label_costs_more_than_the_largest_weight(self) -> Linear:
        nats = self.weight * max(abs(term.coefficient) for term in self.terms)
        if math.isfinite(self.weight) and nats > LARGEST_WEIGHT:
            raise ValueError(
                f"weight times coefficient is {nats:g} nats for one label, and {LARGEST_WEIGHT:,.0f} are the most; "
                "divide the terms and the bound by the largest coefficient, or make it hard"
            )
        return self

    def named_labels(self) -> Iterator[tuple[Location, str]]:
        """The labels of all terms, with their places."""
        for i, term in enumerate(self.terms):
            for field, names in (("label", term.label), ("previous", term.previous or ())):
                yield from ((("terms", i, field, k), name) for k, name in enumerate(names))

    def rows(self, site: Site) -> Draft:
        """The rows; two for each equality."""
        return joined(self._drafts(site))

    def antecedent(self, site: Site) -> Draft:
        """Antecedent: a term that adds to the sum; with a bound below 0, every labelling has it."""
        return joined([_added(draft) for draft in self._drafts(site)])

    def _drafts(self, site: Site) -> list[Draft]:
        home, parts = self._anchored(site) if self.each == "token" else self._summed(site)
        signs = {Sense.AT_MOST: (1.0,), Sense.AT_LEAST: (-1.0,), Sense.EQUAL: (1.0, -1.0)}[self.sense]
        return [self._signed(home, parts, sign) for sign in signs]

    def _signed(self, home: Ints, parts: list[Part], sign: float) -> Draft:
        signed = tuple(part._replace(coefficient=sign * part.coefficient) for part in parts)
        return Draft(home, np.full(len(home), sign * self.bound), signed)

    def _summed(self, site: Site) -> tuple[Ints, list[Part]]:
        scope = Scope(self.each)
        segment = site.segment(scope)
        fits = np.stack([site.mask(term.tokens) for term in self.terms], axis=1)
        fits[site.batch.sentence_starts] &= [term.previous is None for term in self.terms]
        parts: list[Part] = []
        # Tokens with the same terms have the same edges, at which overlapping terms add up.
        groups, group = np.unique(fits, axis=0, return_inverse=True)
        for i, held in enumerate(groups):
            at = np.flatnonzero(group == i)
            parts += _parts(segment[at], at, self._table(site, held))
        return site.bounds(scope)[0], parts

    def _anchored(self, site: Site) -> tuple[Ints, list[Part]]:
        starts, ends = site.bounds(Scope.SENTENCE)
        sentence = site.segment(Scope.SENTENCE)
        first, last = starts[sentence], ends[sentence]
        fits = site.mask(self.tokens)
        for term in self.terms:
            needed = site.positions + term.offset
            fits = fits & (needed - (term.previous is not None) >= first) & (needed < last)
        at = np.flatnonzero(fits)
        parts: list[Part] = []
        offsets = np.array([term.offset for term in self.terms])
        for offset in np.unique(offsets).tolist():
            parts += _parts(np.arange(len(at)), at + offset, self._table(site, offsets == offset))
        return at, parts

    def _table(self, site: Site, held: Mask) -> Floats:
        """(L + 1, L) sum of what the terms in the mask ``held`` add at each edge; the last row is for `ANY`."""
        size = len(site.labels)
        table = np.zeros((size + 1, size))
        for term in itertools.compress(self.terms, held):
            before = np.array([ANY]) if term.previous is None else np.flatnonzero(site.mask_of(term.previous))
            table[np.ix_(before, np.flatnonzero(site.mask_of(term.label)))] += term.coefficient
        return table


def _added(draft: Draft) -> Draft:
    if (draft.bound < 0.0).any():
        return always(draft.home)
    return wherever(draft.home, [part for part in draft.parts if (part.coefficient > 0.0).any()])


def _parts(row: Ints, position: Ints, table: Floats) -> Iterator[Part]:
    """The entries of a table at each of the M places: a part for each of its values except 0."""
    for value in np.unique(table[table != 0.0]).tolist():
        before, after = np.nonzero(table == value)
        before[before == len(table) - 1] = ANY
        yield Part(row, position, np.full(len(row), value), before, after, np.ones(len(after), np.int64))


class Legality(RowTemplate):
    """Every label sequence is one the label set can encode (BIO: no ``I-T`` without its ``B-T``).

    There is a row for each token: illegal edges into it (illegal labels at the first token of a sentence) ≤ 0. Degree:
    number of tokens with an illegal label. Every problem has legality hard in its potentials; declaring it adds it to
    reports. A plain label set has no rows.
    """

    label_fields: ClassVar[tuple[str, ...]] = ()

    def rows(self, site: Site) -> Draft:
        """One row for each token."""
        labels = site.labels
        if labels.legal_transition.all() and labels.legal_start.all():
            return Draft(site.inner[:0], np.zeros(0), ())
        first = forbidden_labels(site.batch.sentence_starts, ~labels.legal_start)
        return joined([first, forbidden_edges(site.inner, ~labels.legal_transition)])
