"""How many runs, and where they may change: Chang et al. (2008) table 1, Stokman (2011) tables 2 and 4, §5.3.

A run is defined in `workers.constraints.templates.template`. Each count below is a sum over edges, so all
rows have linear size.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from schemas.potentials import Ints
from workers.constraints.rows import Draft, Part, forbidden_edges, wherever
from workers.constraints.templates.template import (
    PUNCTUATION,
    Count,
    Names,
    RowTemplate,
    Scope,
    Site,
    Tokens,
    TokenTest,
    opening_edges,
    same_run,
)


class AppearsOnce(RowTemplate):
    """Each field is one run, at most, Chang table 1. ``labels``: all span types by default.

    A row for each label or type named: Σ_t 1[a run of it opens at t] ≤ 1. Degree: runs beyond the
    first, of each.
    """

    labels: Names | None = None
    scope: Scope = Scope.DOCUMENT

    def rows(self, site: Site) -> Draft:
        """One row a label and document (or sentence)."""
        homes, parts = self._opened(site)
        return Draft(homes, np.ones(len(homes)), parts)

    def antecedent(self, site: Site) -> Draft:
        """A run of it."""
        return wherever(*self._opened(site))

    def _opened(self, site: Site) -> tuple[Ints, tuple[Part, ...]]:
        """Where each row's document (or sentence) starts, and 1[a run opens at t] of each row's label."""
        names = self.labels or site.labels.types
        segment, starts = site.segment(self.scope), site.bounds(self.scope)[0]
        parts: list[Part] = []
        for i, one in enumerate(names):
            parts += site.openings(segment + i * len(starts), (one,))
        return np.tile(starts, len(names)), tuple(parts)


class AtMostRuns(RowTemplate):
    """No more than ``limit`` runs of the labels together, Stokman §5.3.

    One row: Σ_t 1[a run opens at t] ≤ limit. Degree: runs beyond the limit.
    """

    labels: Names
    limit: Annotated[Count, Field(ge=0)]
    scope: Scope = Scope.DOCUMENT

    def rows(self, site: Site) -> Draft:
        """One row a document (or sentence)."""
        starts, _ = site.bounds(self.scope)
        parts = site.openings(site.segment(self.scope), self.labels)
        return Draft(starts, np.full(len(starts), float(self.limit)), parts)

    def antecedent(self, site: Site) -> Draft:
        """A run."""
        return wherever(site.bounds(self.scope)[0], site.openings(site.segment(self.scope), self.labels))


class AtLeastRuns(RowTemplate):
    """At least ``limit`` runs of the labels together, Stokman §5.3.

    One row: limit − Σ_t 1[a run opens at t] ≤ 0. Degree: runs that are missing.
    """

    labels: Names
    limit: Annotated[Count, Field(ge=1)]
    scope: Scope = Scope.DOCUMENT

    def rows(self, site: Site) -> Draft:
        """One row a document (or sentence)."""
        starts, _ = site.bounds(self.scope)
        parts = site.openings(site.segment(self.scope), self.labels, -1.0)
        return Draft(starts, np.full(len(starts), -float(self.limit)), parts)


class SequenceImpliesSequence(RowTemplate):
    """A run of ``label`` needs a run of ``implies``, Stokman tables 2 and 4.

    One row: Σ_t 1[a run of label opens] − n · Σ_t 1[a run of implies opens] ≤ 0, n the scope's
    tokens: broken exactly where there is the one and not the other; degree: the runs of ``label``
    then. With ``counted`` n is 1, as table 2 prints it: at least as many runs of ``implies``;
    degree: those missing.
    """

    label: Names
    implies: Names
    counted: bool = False
    scope: Scope = Scope.DOCUMENT
    label_fields: ClassVar[tuple[str, ...]] = ("label", "implies")

    def rows(self, site: Site) -> Draft:
        """One row a document (or sentence)."""
        starts, _ = site.bounds(self.scope)
        row = site.segment(self.scope)
        times = site.times(self.scope, counted=self.counted)
        first, second = site.mask_of(self.label), site.mask_of(self.implies)
        opens, implied = opening_edges(site.labels, self.label), opening_edges(site.labels, self.implies)
        parts = (
            *site.opened(row, first & ~second, opens & ~implied, 1.0),
            *site.opened(row, second & ~first, implied & ~opens, -times),
            *site.opened(row, first & second, opens & implied, 1 - times),
        )
        return Draft(starts, np.zeros(len(starts)), parts)

    def antecedent(self, site: Site) -> Draft:
        """A run of ``label``."""
        return wherever(site.bounds(self.scope)[0], site.openings(site.segment(self.scope), self.label))


class Side(StrEnum):
    """Which token of a change is looked at."""

    BEFORE = "before"
    AFTER = "after"
    EITHER = "either"


class TransitionOn(RowTemplate):
    """Labels change at given tokens only (punctuation by default), Chang et al. (2008) table 1.

    A change from t − 1 to t is free where one of the two tokens passes the test (``side`` narrows
    that to the token before or after the change). For every other edge a row
    Σ_{b does not continue a} 1[y_{t−1} = a ∧ y_t = b] ≤ 0. Degree: changes elsewhere.
    """

    tokens: Tokens = TokenTest(pattern=PUNCTUATION)
    side: Side = Side.EITHER
    label_fields: ClassVar[tuple[str, ...]] = ()

    def rows(self, site: Site) -> Draft:
        """One row an edge where a change is not free."""
        passes = site.mask(self.tokens)
        inner = site.inner
        free = np.zeros(len(inner), np.bool_)
        if self.side is not Side.AFTER:
            free |= passes[inner - 1]
        if self.side is not Side.BEFORE:
            free |= passes[inner]
        return forbidden_edges(inner[~free], ~same_run(site.labels))
