"""Order of labels: Fersini et al. (2014) eq. 17–21, Stokman (2011) tables 2 and 4.

Notation: A(t) = Σ_{a ∈ A} 1[y_t = a]; A and B are the labels of ``first`` and ``second``.
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

    There is a row for each t with a next token in its sentence: Σ_{a ∈ A, b ∉ B} 1[y_t = a ∧ y_{t+1} = b] ≤ 0. This
    equals A(t) − B(t + 1) ≤ 0, with one edge for each entry. Degree: number of tokens t that break it. Size: linear.
    """

    first: Names
    second: Names
    label_fields: ClassVar[tuple[str, ...]] = ("first", "second")

    def rows(self, site: Site) -> Draft:
        """One row for each edge."""
        return forbidden_edges(site.inner, np.outer(site.mask_of(self.first), ~site.mask_of(self.second)))

    def antecedent(self, site: Site) -> Draft:
        """Antecedent: t is labelled A."""
        return _before(site, site.inner, self.first)


class ShouldNotPrecede(RowTemplate):
    """A does not come right before B, Stokman table 2; ``tokens`` tests the second token.

    There is a row for each such token i: Σ_{a ∈ A, b ∈ B} 1[y_{i−1} = a ∧ y_i = b] ≤ 0. Degree: number of tokens i that
    break it.
    """

    first: Names
    second: Names
    tokens: Tokens | None = None
    label_fields: ClassVar[tuple[str, ...]] = ("first", "second")

    def rows(self, site: Site) -> Draft:
        """One row for each edge into a tested token."""
        return forbidden_edges(self._tested(site), np.outer(site.mask_of(self.first), site.mask_of(self.second)))

    def antecedent(self, site: Site) -> Draft:
        """Antecedent: the token before i is labelled A."""
        return _before(site, self._tested(site), self.first)

    def _tested(self, site: Site) -> Ints:
        return site.inner[site.mask(self.tokens)[site.inner]]


class Precedence(RowTemplate):
    """A token labelled A is followed by one labelled B within ``reach`` tokens, Fersini eq. 18.

    There is a row for each t: A(t) − Σ_{1 ≤ z ≤ reach} B(t + z) ≤ 0, up to the end of the scope at most; without a
    reach it goes up to that end. Degree: number of tokens labelled A that no B follows, with the scope's last token
    among them. Size: N · reach; without a reach it is quadratic in the length of the scope, since no sum over later
    tokens fits in a row without variables of its own.
    """

    first: Names
    second: Names
    reach: Annotated[Count, Field(ge=1)] | None = None
    scope: Scope = Scope.SENTENCE
    label_fields: ClassVar[tuple[str, ...]] = ("first", "second")

    def rows(self, site: Site) -> Draft:
        """One row for each token."""
        at = site.positions
        last = site.bounds(self.scope)[1][site.segment(self.scope)]
        if self.reach is not None:
            last = np.minimum(last, at + 1 + self.reach)
        row, later = site.ranges(at, at + 1, last)
        parts = (tokens_in(at, at, site.mask_of(self.first)), tokens_in(row, later, site.mask_of(self.second), -1.0))
        return Draft(at, np.zeros(len(at)), parts)

    def antecedent(self, site: Site) -> Draft:
        """Antecedent: t is labelled A."""
        at = site.positions
        return wherever(at, [tokens_in(at, at, site.mask_of(self.first))])


class StateChange(RowTemplate):
    """A delimiter stands between ``before`` and ``after``, Fersini eq. 19.

    There is a row for each delimiter t with both neighbours in its sentence: 2 − A(t − 1) − B(t + 1) ≤ 0. Degree:
    number of neighbours with another label, 0 to 2 for each delimiter.
    """

    delimiters: Tokens
    before: Names
    after: Names
    label_fields: ClassVar[tuple[str, ...]] = ("before", "after")

    def rows(self, site: Site) -> Draft:
        """One row for each delimiter."""
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

    There is one row: A(first token) − B(last token) ≤ 0. Degree: 0 or 1 for each document (or sentence).
    """

    begin: Names
    end: Names
    scope: Scope = Scope.DOCUMENT
    label_fields: ClassVar[tuple[str, ...]] = ("begin", "end")

    def rows(self, site: Site) -> Draft:
        """One row for each document or sentence; none if it has a single token, which both begins and ends it."""
        first, last = self._ends(site)
        row = np.arange(len(first))
        parts = (
            tokens_in(row, first, site.mask_of(self.begin)),
            tokens_in(row, last, site.mask_of(self.end), -1.0),
        )
        return Draft(first, np.zeros(len(row)), parts)

    def antecedent(self, site: Site) -> Draft:
        """Antecedent: the first token is labelled A."""
        first, _ = self._ends(site)
        return wherever(first, [tokens_in(np.arange(len(first)), first, site.mask_of(self.begin))])

    def _ends(self, site: Site) -> tuple[Ints, Ints]:
        """First and last tokens of documents or sentences with several tokens."""
        starts, ends = site.bounds(self.scope)
        long = ends - starts > 1
        return starts[long], ends[long] - 1


class PresencePrecedence(RowTemplate):
    """Where A appears, B does not appear before it, Fersini eq. 21.

    There is a row for each t with n > 0 earlier tokens in the scope: n · A(t) + Σ_{z < t} B(z) ≤ n. Degree: number of
    pairs (z < t) with y_z ∈ B and y_t ∈ A. The factor in the paper is the number of labels times n, and its sum runs
    over 1 − B; both say the same, and n is the least factor that does. Size: quadratic.
    """

    first: Names
    second: Names
    scope: Scope = Scope.DOCUMENT
    label_fields: ClassVar[tuple[str, ...]] = ("first", "second")

    def rows(self, site: Site) -> Draft:
        """One row for each token but the scope's first."""
        begin, at = self._later(site)
        earlier = at - begin[at]
        row, before = site.ranges(at, begin[at], at)
        parts = (
            tokens_in(np.arange(len(at)), at, site.mask_of(self.first), earlier),
            tokens_in(row, before, site.mask_of(self.second)),
        )
        return Draft(at, earlier, parts)

    def antecedent(self, site: Site) -> Draft:
        """Antecedent: t is labelled A."""
        _, at = self._later(site)
        return wherever(at, [tokens_in(np.arange(len(at)), at, site.mask_of(self.first))])

    def _later(self, site: Site) -> tuple[Ints, Ints]:
        """(N,) first token of each token's scope, and the tokens that are not first."""
        begin = site.bounds(self.scope)[0][site.segment(self.scope)]
        return begin, np.flatnonzero(site.positions > begin)


class Before(RowTemplate):
    """A run of B opens only after some A, Stokman §5.3 ("should exist before").

    There is a row for each t: 1[a run of B opens at t] − Σ_{z < t} A(z) ≤ 0, with z in the same scope. Degree: number
    of runs of B before the first A. Size: quadratic.
    """

    first: Names
    second: Names
    scope: Scope = Scope.DOCUMENT
    label_fields: ClassVar[tuple[str, ...]] = ("first", "second")

    def rows(self, site: Site) -> Draft:
        """One row for each token."""
        at = site.positions
        row, earlier = site.ranges(at, site.bounds(self.scope)[0][site.segment(self.scope)], at)
        parts = (*site.openings(at, self.second), tokens_in(row, earlier, site.mask_of(self.first), -1.0))
        return Draft(at, np.zeros(len(at)), parts)

    def antecedent(self, site: Site) -> Draft:
        """Antecedent: a run of B opens at t."""
        return wherever(site.positions, site.openings(site.positions, self.second))


def _before(site: Site, at: Ints, names: Names) -> Draft:
    """Antecedents: the token before each of ``at`` has one of the labels."""
    return wherever(at, [tokens_in(np.arange(len(at)), at - 1, site.mask_of(names))])
