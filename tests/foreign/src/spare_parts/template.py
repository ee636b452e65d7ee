"""A constraint template."""

from __future__ import annotations

from concord.parts import Draft, Names, RowTemplate, Scope, Site, forbidden_labels


class EndsWith(RowTemplate):
    """The last token has one of the labels. Degree: 0 or 1 a document."""

    labels: Names

    def rows(self, site: Site) -> Draft:
        """One row a document: Σ of all other labels of its last token ≤ 0."""
        return forbidden_labels(site.bounds(Scope.DOCUMENT)[1] - 1, ~site.mask_of(self.labels))
