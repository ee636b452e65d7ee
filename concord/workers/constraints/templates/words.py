"""Labels that given tokens may have: Chang et al. (2008) table 1, Stokman (2011) table 2."""

from __future__ import annotations

import numpy as np
from pydantic import model_validator

from concord.workers.constraints.rows import Draft, forbidden_labels
from concord.workers.constraints.templates.template import Count, Names, RowTemplate, Scope, Site, Tokens


class Lexicon(RowTemplate):
    """The words have one of the labels, Chang table 1 (book or journal, technical report, location).

    There is a row for each such token: Σ_{l ∉ labels} 1[y_t = l] ≤ 0. Degree: number of such tokens with another label.
    """

    words: Tokens
    labels: Names

    def rows(self, site: Site) -> Draft:
        """One row for each listed word."""
        return forbidden_labels(np.flatnonzero(site.mask(self.words)), ~site.mask_of(self.labels))


class OnlyIn(RowTemplate):
    """Such tokens stand only inside runs of the labels, Chang table 1 (quotations only in titles).

    There is a row for each such token: Σ_{l ∉ labels} 1[y_t = l] ≤ 0. Degree: number of such tokens outside.
    """

    tokens: Tokens
    labels: Names

    def rows(self, site: Site) -> Draft:
        """One row for each token that passes."""
        return forbidden_labels(np.flatnonzero(site.mask(self.tokens)), ~site.mask_of(self.labels))


class ShouldBeTagged(RowTemplate):
    """Token i has one of the labels, Stokman table 2.

    It is the token at ``position`` of the document (negative: from its end), or every token that passes ``tokens``.
    There is a row for each: Σ_{l ∉ labels} 1[y_i = l] ≤ 0. Degree: number of such tokens with another label. A document
    without that position has no row.
    """

    labels: Names
    position: Count | None = None
    tokens: Tokens | None = None

    @model_validator(mode="after")
    def _one_way_to_say_which(self) -> ShouldBeTagged:
        if (self.position is None) == (self.tokens is None):
            raise ValueError("give either a position or tokens")
        return self

    def rows(self, site: Site) -> Draft:
        """One row for each such token."""
        if self.position is None:
            at = np.flatnonzero(site.mask(self.tokens))
        else:
            starts, ends = site.bounds(Scope.DOCUMENT)
            at = (starts if self.position >= 0 else ends) + self.position
            at = at[(at >= starts) & (at < ends)]
        return forbidden_labels(at, ~site.mask_of(self.labels))
