"""What follows what: Fersini et al. (2014) eq. 17–21, Stokman (2011) tables 2 and 4.

Notation: A(t) = Σ_{a ∈ A} 1[y_t = a], A and B the labels of ``first`` and ``second``.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from concord.schemas.arrays import Ints
from concord.workers.constraints.rows import Draft, forbidden_edges, tokens_in, wherever
from concord.workers.constraints.templates.template import Count, Names, RowTemplate, Scope, Site, Tokens


class Adjacency(RowTemplate):
    """A token labelled A is followed by one labelled B, Fersini eq. 17.

    A row for each t that has a next token in its sentence: Σ_{a ∈ A, b ∉ B} 1[y_t = a ∧ y_{t+1} = b]
    ≤ 0, which equals A(t) − B(t + 1) ≤ 0 with one edge an entry. Degree: such t. Linear size.
    """

    first: Names
    second: Names
    label_fields: ClassVar[tuple[str, ...]] = ("first", "second")

    def rows(self, site: Site) -> Draft:
        """One row an edge."""
        return forbidden_edges(site.inner, np.outer(site.mask_of(self.first), ~site.mask_of(self.second)))

    def antecedent(self, site: Site) -> Draft:
        """A(t)."""
        return _before(site, site.inner, self.first)


class ShouldNotPrecede(RowTemplate):
    """A does not come right before B, Stokman table 2; ``tokens`` tests the second token.

    A row for each such token i: Σ_{a ∈ A, b ∈ B} 1[y_{i−1} = a ∧ y_i = b] ≤ 0. Degree: such i.
    """

    first: Names
    second: Names
    tokens: Tokens | None = None
    label_fields: ClassVar[tuple[str, ...]] = ("first", "second")

    def rows(self, site: Site) -> Draft:
        """One row an edge into a tested token."""
        return forbidden_edges(self._tested(site), np.outer(site.mask_of(self.first), site.mask_of(self.second)))

    def antecedent(self, site: Site) -> Draft:
        """A(i − 1)."""
        return _before(site, self._tested(site), self.first)

    def _tested(self, site: Site) -> Ints:
        return site.inner[site.mask(self.tokens)[site.inner]]


class Precedence(RowTemplate):
    """A token labelled A is followed by one labelled B within ``reach`` tokens, Fersini eq. 18.

    A row for each t: A(t) − Σ_{1 ≤ z ≤ reach} B(t + z) ≤ 0, not beyond the scope's end; without a
    reach up to that end. Degree: tokens of A that no B follows, the scope's last token among them.
    Size N · reach, quadratic in the scope's length without a reach: no sum over later tokens fits
    in a row without variables of its own.
    """

    first: Names
    second: Names
    reach: Annotated[Count, Field(ge=1)] | None = None
    scope: Scope = Scope.SENTENCE
    label_fields: ClassVar[tuple[str, ...]] = ("first", "second")

    def rows(self, site: Site) -> Draft:
        """One row a token."""
        at = site.positions
        last = site.bounds(self.scope)[1][site.segment(self.scope)]
        if self.reach is not None:
            last = np.minimum(last, at + 1 + self.reach)
        row, later = site.ranges(at, at + 1, last)
        parts = (tokens_in(at, at, site.mask_of(self.first)), tokens_in(row, later, site.mask_of(self.second), -1.0))
        return Draft(at, np.zeros(len(at)), parts)

    def antecedent(self, site: Site) -> Draft:
        """A(t)."""
        at = site.positions
        return wherever(at, [tokens_in(at, at, site.mask_of(self.first))])


class StateChange(RowTemplate):
    """A delimiter stands between ``before`` and ``after``, Fersini eq. 19.

    A row for each delimiter t with both neighbours in its sentence: 2 − A(t − 1) − B(t + 1) ≤ 0.
    Degree: neighbours that are labelled otherwise, 0 to 2 a delimiter.
    """

    delimiters: Tokens
    before: Names
    after: Names
    label_fields: ClassVar[tuple[str, ...]] = ("before", "after")

    def rows(self, site: Site) -> Draft:
        """One row a delimiter."""
        inside = site.mask(self.delimiters) & ~site.starts_sentence
        inside &= ~np.append(site.starts_sentence[1:], True)[: len(inside)]
        at = np.flatnonzero(inside)
        row = np.arange(len(at))
        parts = (
            tokens_in(row, at - 1, site.mask_of(self.before), -1.0),
            tokens_in(row, at + 1, site.mask_of(self.after), -1.0),
        )
        return Draft(at, np.full(len(at), -2.0), parts)


class BeginEnd(RowTemplate):
    """Where the scope begins with A it ends with B, Fersini eq. 20.

    One row: A(first token) − B(last token) ≤ 0. Degree: 0 or 1 a document (or sentence).
    """

    begin: Names
    end: Names
    scope: Scope = Scope.DOCUMENT
    label_fields: ClassVar[tuple[str, ...]] = ("begin", "end")

    def rows(self, site: Site) -> Draft:
        """One row a document or sentence; none where it has one token only, which begins and ends it."""
        first, last = self._ends(site)
        row = np.arange(len(first))
        parts = (
            tokens_in(row, first, site.mask_of(self.begin)),
            tokens_in(row, last, site.mask_of(self.end), -1.0),
        )
        return Draft(first, np.zeros(len(row)), parts)

    def antecedent(self, site: Site) -> Draft:
        """A(first token)."""
        first, _ = self._ends(site)
        return wherever(first, [tokens_in(np.arange(len(first)), first, site.mask_of(self.begin))])

    def _ends(self, site: Site) -> tuple[Ints, Ints]:
        """First and last tokens of what has several."""
        starts, ends = site.bounds(self.scope)
        long = ends - starts > 1
        return starts[long], ends[long] - 1


class PresencePrecedence(RowTemplate):
    """Where A appears, B does not appear before it, Fersini eq. 21.

    A row for each t with n > 0 earlier tokens in the scope: n · A(t) + Σ_{z < t} B(z) ≤ n. Degree:
    pairs (z < t) with y_z ∈ B and y_t ∈ A. The paper's factor is the number of labels times n and
    its sum runs over 1 − B; both say the same, n is the least factor that does. Quadratic size.
    """

    first: Names
    second: Names
    scope: Scope = Scope.DOCUMENT
    label_fields: ClassVar[tuple[str, ...]] = ("first", "second")

    def rows(self, site: Site) -> Draft:
        """One row a token but the scope's first."""
        begin, at = self._later(site)
        earlier = at - begin[at]
        row, before = site.ranges(at, begin[at], at)
        parts = (
            tokens_in(np.arange(len(at)), at, site.mask_of(self.first), earlier),
            tokens_in(row, before, site.mask_of(self.second)),
        )
        return Draft(at, earlier, parts)

    def antecedent(self, site: Site) -> Draft:
        """A(t)."""
        _, at = self._later(site)
        return wherever(at, [tokens_in(np.arange(len(at)), at, site.mask_of(self.first))])

    def _later(self, site: Site) -> tuple[Ints, Ints]:
        """(N,) where each token's scope begins, and the tokens that are not there."""
        begin = site.bounds(self.scope)[0][site.segment(self.scope)]
        return begin, np.flatnonzero(site.positions > begin)


class Before(RowTemplate):
    """A run of B opens only after some A, Stokman §5.3 ("should exist before").

    A row for each t: 1[a run of B opens at t] − Σ_{z < t} A(z) ≤ 0, z in the same scope. Degree:
    runs of B before the first A. Quadratic size.
    """

    first: Names
    second: Names
    scope: Scope = Scope.DOCUMENT
    label_fields: ClassVar[tuple[str, ...]] = ("first", "second")

    def rows(self, site: Site) -> Draft:
        """One row a token."""
        at = site.positions
        row, earlier = site.ranges(at, site.bounds(self.scope)[0][site.segment(self.scope)], at)
        parts = (*site.openings(at, self.second), tokens_in(row, earlier, site.mask_of(self.first), -1.0))
        return Draft(at, np.zeros(len(at)), parts)

    def antecedent(self, site: Site) -> Draft:
        """A run of B opens at t."""
        return wherever(site.positions, site.openings(site.positions, self.second))


def _before(site: Site, at: Ints, names: Names) -> Draft:
    """The token before each of ``at`` has one of the labels."""
    return wherever(at, [tokens_in(np.arange(len(at)), at - 1, site.mask_of(names))])
