"""Labels that a document must have, and its first label: Chang et al. (2008) table 1, Stokman (2011) table 2."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from concord.workers.constraints.rows import Draft, forbidden_labels, tokens_in, wherever
from concord.workers.constraints.templates.template import Names, RowTemplate, Scope, Site


class StartsWith(RowTemplate):
    """The first token has one of the labels, Chang table 1.

    There is one row: Σ_{l ∉ labels} 1[y_first = l] ≤ 0. Degree: 0 or 1 for each document (or sentence).
    """

    labels: Names
    scope: Scope = Scope.DOCUMENT

    def rows(self, site: Site) -> Draft:
        """One row for each document (or sentence)."""
        return forbidden_labels(site.bounds(self.scope)[0], ~site.mask_of(self.labels))


class MustAppear(RowTemplate):
    """Some token has one of the labels (several names: any of them), like those of Chang table 1.

    There is one row: 1 − Σ_t A(t) ≤ 0. Degree: 0 or 1 for each document (or sentence).
    """

    labels: Names
    scope: Scope = Scope.DOCUMENT

    def rows(self, site: Site) -> Draft:
        """One row for each document (or sentence)."""
        starts, _ = site.bounds(self.scope)
        entries = tokens_in(site.segment(self.scope), site.positions, site.mask_of(self.labels), -1.0)
        return Draft(starts, np.full(len(starts), -1.0), (entries,))


class TagImpliesTag(RowTemplate):
    """A token of ``label`` needs a token of ``implies``, Stokman tables 2 and 4.

    There is one row: Σ_t A(t) − n · Σ_t B(t) ≤ 0, with n the number of the scope's tokens. It is broken exactly if
    there are tokens of ``label`` and none of ``implies``; degree: number of tokens of ``label`` then. With ``counted``
    n is 1, as table 2 prints it: there are at least as many tokens of ``implies``; degree: number of those that are
    missing.
    """

    label: Names
    implies: Names
    counted: bool = False
    scope: Scope = Scope.DOCUMENT
    label_fields: ClassVar[tuple[str, ...]] = ("label", "implies")

    def rows(self, site: Site) -> Draft:
        """One row for each document (or sentence)."""
        starts, _ = site.bounds(self.scope)
        row, at = site.segment(self.scope), site.positions
        times = site.times(self.scope, counted=self.counted)
        first, second = site.mask_of(self.label), site.mask_of(self.implies)
        parts = (
            tokens_in(row, at, first & ~second),
            tokens_in(row, at, second & ~first, -times),
            tokens_in(row, at, first & second, 1 - times),
        )
        return Draft(starts, np.zeros(len(starts)), parts)

    def antecedent(self, site: Site) -> Draft:
        """Antecedent: a token of ``label``."""
        entries = tokens_in(site.segment(self.scope), site.positions, site.mask_of(self.label))
        return wherever(site.bounds(self.scope)[0], [entries])
