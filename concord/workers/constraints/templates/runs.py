"""Number of runs, and places where labels may change: Chang et al. (2008) table 1, Stokman (2011) tables 2 and 4, §5.3.

A run is defined in `workers.constraints.templates.template`. Each count below is a sum over edges, so the size of a row
is linear in its scope.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from concord.schemas.arrays import Ints
from concord.schemas.labels import LabelSet
from concord.workers.constraints.rows import Draft, Part, always, forbidden_edges, tokens_in, wherever
from concord.workers.constraints.templates.template import (
    PUNCTUATION,
    Count,
    Names,
    RowTemplate,
    Scope,
    Site,
    Tokens,
    TokenTest,
    going_on,
    label_mask,
    opening_edges,
    same_run,
)
from concord.workers.storage.lined_yaml import Location


class AppearsOnce(RowTemplate):
    """Each field is one run, at most, Chang table 1. ``labels``: all span types by default.

    There is a row for each label or type named: Σ_t 1[a run of it opens at t] ≤ 1. Degree: number of runs beyond the
    first, for each of them.
    """

    labels: Names | None = None
    scope: Scope = Scope.DOCUMENT

    def rows(self, site: Site) -> Draft:
        """One row for each label and document (or sentence)."""
        homes, parts = self._openings(site)
        return Draft(homes, np.ones(len(homes)), parts)

    def antecedent(self, site: Site) -> Draft:
        """Antecedent: a run of the label."""
        return wherever(*self._openings(site))

    def _openings(self, site: Site) -> tuple[Ints, tuple[Part, ...]]:
        """The first token of each row's document (or sentence), and 1[a run opens at t] of each row's label."""
        names = self.labels or site.labels.types
        segment, starts = site.segment(self.scope), site.bounds(self.scope)[0]
        parts: list[Part] = []
        for i, one in enumerate(names):
            parts += site.openings(segment + i * len(starts), (one,))
        return np.tile(starts, len(names)), tuple(parts)


class AppearsOnceASide(RowTemplate):
    """Each field is one run, at most, on each side of the first separator: ``tag`` of usaddress 0.5.16.

    A separator is a run of ``separators`` that opens at a token that passes ``tokens`` (any token by default);
    ``labels`` are all other span types by default. Let S(t) = 1[a separator opens at t], O(t) = 1[a run of the label
    opens at t], and n the number of the scope's tokens. The rows are

    - for each label: Σ_t O(t) − n · Σ_p S(p) ≤ 1;
    - for each label and token p that may open a separator, one row for each side: Σ_{t < p} O(t) + n · (S(p) − Σ_{q <
      p} S(q)) ≤ n + 1, and the same with t > p.

    Only the rows of the first separator can be broken or, without any separator, the rows of the first kind. Degree:
    number of runs beyond the first on each side. Size: number of tokens times number of tokens that may open a
    separator, so a test of words keeps it linear.
    """

    separators: Names
    labels: Names | None = None
    tokens: Tokens | None = None
    scope: Scope = Scope.DOCUMENT
    label_fields: ClassVar[tuple[str, ...]] = ("separators", "labels")

    def check(self, labels: LabelSet) -> Iterator[tuple[Location, str]]:
        """Mistakes against the label set: unknown names, and labels that are separators too."""
        yield from (faults := list(super().check(labels)))
        if not faults:
            separating = label_mask(labels, self.separators)
            for i, name in enumerate(self.labels or ()):
                if (separating & label_mask(labels, (name,))).any():
                    yield ("labels", i), f"{name!r} is a separator too; a field is what separators stand between"

    def rows(self, site: Site) -> Draft:
        """One row for each label and document (or sentence), and two for each label and possible separator."""
        return self._runs_beyond(site, 1)

    def antecedent(self, site: Site) -> Draft:
        """Antecedent: a run of the label on that side."""
        return self._runs_beyond(site, 0)

    def _runs_beyond(self, site: Site, limit: int) -> Draft:
        """Rows that are broken by more than ``limit`` runs."""
        starts, ends = site.bounds(self.scope)
        segment, size = site.segment(self.scope), ends - starts
        at = np.flatnonzero(site.mask(self.tokens))
        own = segment[at]
        homes = np.concatenate([starts, at, at])
        bound = limit + np.concatenate([0 * starts, size[own], size[own]])
        parts: list[Part] = []
        names = self._fields(site)
        for i in range(len(names)):
            whole = i * len(homes)
            before, after = whole + len(starts), whole + len(starts) + len(at)
            parts += site.openings(whole + segment, (names[i],))
            parts += self._separated(site, whole + own, at, -size[own])
            for side, low, high in ((before, starts[own], at), (after, at + 1, ends[own])):
                row, place = site.ranges(at, low, high)
                parts += _openings_of(site, (names[i],), side + row, place, 1)
                parts += self._separated(site, side + np.arange(len(at)), at, size[own])
                row, earlier = site.ranges(at, np.searchsorted(at, starts[own]), np.arange(len(at)))
                parts += self._separated(site, side + row, at[earlier], -size[own][row])
        return Draft(np.tile(homes, len(names)), np.tile(bound, len(names)), tuple(parts))

    def _fields(self, site: Site) -> tuple[str, ...]:
        if self.labels is not None:
            return self.labels
        separating = site.mask_of(self.separators)
        return tuple(name for name in site.labels.types if not (separating & site.mask_of((name,))).any())

    def _separated(self, site: Site, row: Ints, position: Ints, coefficient: Ints) -> tuple[Part, ...]:
        """coefficient · S(position) in ``row``; all are (M,)."""
        return _openings_of(site, self.separators, row, position, coefficient)


class AtMostRuns(RowTemplate):
    """No more than ``limit`` runs of the labels together, Stokman §5.3.

    There is one row: Σ_t 1[a run opens at t] ≤ limit. Degree: number of runs beyond the limit.
    """

    labels: Names
    limit: Annotated[Count, Field(ge=0)]
    scope: Scope = Scope.DOCUMENT

    def rows(self, site: Site) -> Draft:
        """One row for each document (or sentence)."""
        starts, _ = site.bounds(self.scope)
        parts = site.openings(site.segment(self.scope), self.labels)
        return Draft(starts, np.full(len(starts), float(self.limit)), parts)

    def antecedent(self, site: Site) -> Draft:
        """Antecedent: a run of the labels."""
        return wherever(site.bounds(self.scope)[0], site.openings(site.segment(self.scope), self.labels))


class AtLeastRuns(RowTemplate):
    """At least ``limit`` runs of the labels together, Stokman §5.3.

    There is one row: limit − Σ_t 1[a run opens at t] ≤ 0. Degree: number of runs that are missing.
    """

    labels: Names
    limit: Annotated[Count, Field(ge=1)]
    scope: Scope = Scope.DOCUMENT

    def rows(self, site: Site) -> Draft:
        """One row for each document (or sentence)."""
        starts, _ = site.bounds(self.scope)
        parts = site.openings(site.segment(self.scope), self.labels, -1.0)
        return Draft(starts, np.full(len(starts), -float(self.limit)), parts)


class SequenceImpliesSequence(RowTemplate):
    """A run of ``label`` needs a run of ``implies``, Stokman tables 2 and 4.

    There is one row: Σ_t 1[a run of label opens] − n · Σ_t 1[a run of implies opens] ≤ 0, with n the number of the
    scope's tokens. It is broken exactly if there are runs of ``label`` and none of ``implies``; degree: number of runs
    of ``label`` then. With ``counted`` n is 1, as table 2 prints it: there are at least as many runs of ``implies``;
    degree: number of those that are missing.
    """

    label: Names
    implies: Names
    counted: bool = False
    scope: Scope = Scope.DOCUMENT
    label_fields: ClassVar[tuple[str, ...]] = ("label", "implies")

    def rows(self, site: Site) -> Draft:
        """One row for each document (or sentence)."""
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
        """Antecedent: a run of ``label``."""
        return wherever(site.bounds(self.scope)[0], site.openings(site.segment(self.scope), self.label))


class ChangeSide(StrEnum):
    """The token of a change that is tested."""

    BEFORE = "before"
    AFTER = "after"
    EITHER = "either"


class TransitionOn(RowTemplate):
    """Labels change at given tokens only (punctuation by default), Chang et al. (2008) table 1.

    A change from t − 1 to t is free if one of the two tokens passes the test (``side`` narrows that to the token before
    or after the change). For every other edge there is a row Σ_{b does not continue a} 1[y_{t−1} = a ∧ y_t = b] ≤ 0.
    Degree: number of changes elsewhere.
    """

    tokens: Tokens = Field(default_factory=lambda: TokenTest(pattern=PUNCTUATION))
    side: ChangeSide = ChangeSide.EITHER
    label_fields: ClassVar[tuple[str, ...]] = ()

    def rows(self, site: Site) -> Draft:
        """One row for each edge where a change is not free."""
        passes = site.mask(self.tokens)
        inner = site.inner
        free = np.zeros(len(inner), np.bool_)
        if self.side is not ChangeSide.AFTER:
            free |= passes[inner - 1]
        if self.side is not ChangeSide.BEFORE:
            free |= passes[inner]
        return forbidden_edges(inner[~free], ~same_run(site.labels))


class ChangesAt(RowTemplate):
    """Labels change at given tokens: a run of ``labels`` (of any by default) does not go on past them.

    The token stands before the change, or after it. There is a row for each edge with such a token: Σ_{b continues a, a
    ∈ labels} 1[y_{t−1} = a ∧ y_t = b] ≤ 0. Degree: number of such tokens inside a run.
    """

    tokens: Tokens
    labels: Names | None = None
    side: Literal[ChangeSide.BEFORE, ChangeSide.AFTER] = ChangeSide.BEFORE

    def rows(self, site: Site) -> Draft:
        """One row for each edge at such a token."""
        names = self.labels or site.labels.names
        pairs = going_on(site.labels, names) & site.mask_of(names)[:, None] & site.mask_of(names)
        return forbidden_edges(self._edges(site), pairs)

    def antecedent(self, site: Site) -> Draft:
        """Antecedent: the token has one of the labels."""
        at = self._edges(site)
        if self.labels is None:
            return always(at)
        own = at - (self.side is ChangeSide.BEFORE)
        return wherever(at, [tokens_in(np.arange(len(at)), own, site.mask_of(self.labels))])

    def _edges(self, site: Site) -> Ints:
        passes, inner = site.mask(self.tokens), site.inner
        return inner[passes[inner - (self.side is ChangeSide.BEFORE)]]


def _openings_of(site: Site, names: Names, row: Ints, position: Ints, coefficient: float | Ints) -> tuple[Part, ...]:
    """coefficient · 1[a run of ``names`` opens at position] in ``row``; row and position are (M,)."""
    return site.opened_at(row, position, site.mask_of(names), opening_edges(site.labels, names), coefficient)
