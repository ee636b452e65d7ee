"""Weights of declared constraints, counted on labelled documents.

Only rows that say something count: those whose antecedent gold has (`RowTemplate.antecedent`). Of n such rows b are
broken. `PENALTIES` names what a broken row then costs, in nats; a half is added on both sides, so that a constraint
that gold never breaks stays soft:

    odds      log((n − b + ½ + h) / (b + ½)): how much likelier a row holds than breaks, never below 0
    fersini   −log((b + ½) / (n + 1)): the surprise of a broken row
    fixed     the same for every constraint
    hard      inf

Chang, Ratinov & Roth (2008) §4 count odds; h are rows imagined to have held before anything was seen: constraints hold
by default (§3.3), which tells where little is labelled. Fersini et al. (2014) eq. 30 prints the logarithm of the share
of rows that hold, which is never above 0 and would reward what it is to punish. Their words for it are the logarithm of
how likely a violation is, and that, negated, is computed.

A row can break by more than one unit, so its nats are spread over the units of degree that a broken row has in gold.
The interval of a weight is that of the share b / n, by Wilson (1927).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import Field

from schemas.document import Batch
from schemas.errors import UsageError
from schemas.labels import LabelSet
from schemas.settings import Settings
from workers.constraints.declared import DeclaredConstraints
from workers.constraints.templates.template import RowTemplate

PRIOR = 0.5
"""Rows that hold, and rows that break, taken as seen before anything is counted."""

QUANTILE = 1.959963984540054
"""Standard deviations of the normal distribution on both sides of 95 %."""

Nats = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]


class PenaltySettings(Settings):
    """``held``: imagined rows of every constraint that held (odds). ``nats``: of a broken row (fixed)."""

    held: Nats = 0.0
    nats: Nats = 1.0


Penalty = Callable[[float, float, PenaltySettings], float]
"""(n, b, settings) to the nats of a broken row."""


def odds(rows: float, broken: float, settings: PenaltySettings) -> float:
    """Chang et al. (2008) §4; 0 where gold breaks more rows than it keeps."""
    return max(0.0, math.log((rows - broken + PRIOR + settings.held) / (broken + PRIOR)))


def fersini(rows: float, broken: float, settings: PenaltySettings) -> float:
    """Fersini et al. (2014) eq. 30, read as its sentence."""
    del settings
    return -math.log((broken + PRIOR) / (rows + 2.0 * PRIOR))


def fixed(rows: float, broken: float, settings: PenaltySettings) -> float:
    """The same for all, whatever was counted."""
    del rows, broken
    return settings.nats


def hard(rows: float, broken: float, settings: PenaltySettings) -> float:
    """Nothing may break it."""
    del rows, broken, settings
    return math.inf


PENALTIES: dict[str, Penalty] = {"odds": odds, "fersini": fersini, "fixed": fixed, "hard": hard}


class PenaltyError(UsageError):
    """A penalty that is not there."""


def penalty_named(name: str) -> Penalty:
    """An entry of `PENALTIES`. Raises `PenaltyError`."""
    if name not in PENALTIES:
        raise PenaltyError(f"no penalty is called {name!r}; there are {', '.join(PENALTIES)}")
    return PENALTIES[name]


class RowCounts(NamedTuple):
    """A constraint's rows in gold: n with their antecedent, others without, b broken, and the degree of all."""

    rows: int
    vacuous: int
    broken: int
    degree: float

    def weight(self, penalty: Penalty, settings: PenaltySettings) -> float:
        """Nats a unit of degree."""
        return penalty(self.rows, self.broken, settings) / self._units

    def interval(self, penalty: Penalty, settings: PenaltySettings) -> tuple[float, float]:
        """The weights at both ends of the interval in which the share of broken rows lies with 95 %."""
        least, most = wilson(self.broken, self.rows)
        low, high = (penalty(self.rows, share * self.rows, settings) / self._units for share in (most, least))
        return low, high

    @property
    def _units(self) -> float:
        """Units of degree that a broken row has."""
        return self.degree / self.broken if self.broken else 1.0


def wilson(count: float, total: float) -> tuple[float, float]:
    """Between which two the share behind ``count`` of ``total`` trials lies with 95 %; (0, 1) without a trial."""
    if total == 0:
        return 0.0, 1.0
    share, spread = count / total, QUANTILE**2 / total
    middle = share + spread / 2.0
    reach = math.sqrt(spread * (share * (1.0 - share) + spread / 4.0))
    low, high = (middle - reach) / (1.0 + spread), (middle + reach) / (1.0 + spread)
    return (0.0 if count == 0 else low), (1.0 if count == total else high)


def count_rows(constraints: DeclaredConstraints, batches: Iterable[Batch], labels: LabelSet) -> dict[str, RowCounts]:
    """Counts of every constraint that grounds to rows, by name, on documents with gold labels.

    Raises `ValueError` for a batch without gold labels and `LabelError` for labels that are not in ``labels``.
    """
    totals = np.zeros((4, len(constraints.names)))
    for batch in batches:
        if batch.labels is None:
            raise ValueError(f"documents {batch.doc_ids[0]!r} and after have no gold labels to count on")
        gold = labels.encode(batch.labels.strings())
        grounds, antecedents = constraints.ground(batch, labels), constraints.antecedents(batch, labels)
        for i, (ground, antecedent) in enumerate(zip(grounds, antecedents, strict=True)):
            own = gold[batch.doc_starts[i] : batch.doc_starts[i + 1]]
            there, degree = antecedent.degree(own) > 0, ground.rows.degree(own)
            for total, amount in zip(totals, (there, ~there, degree > 0, degree), strict=True):
                total += np.bincount(ground.rows.constraint, amount, len(total))
    found = {
        name: RowCounts(int(n), int(vacuous), int(b), degree)
        for name, (n, vacuous, b, degree) in zip(constraints.names, totals.T.tolist(), strict=True)
    }
    return {name: found[name] for name, _ in row_weights(constraints)}


def row_weights(constraints: DeclaredConstraints) -> Iterator[tuple[str, float]]:
    """Name and declared weight (inf: hard) of every constraint that grounds to rows."""
    for title, template in zip(constraints.titles, constraints.templates, strict=True):
        if isinstance(template, RowTemplate):
            yield title, template.weight


def with_weights(constraints: DeclaredConstraints, weights: Mapping[str, float]) -> DeclaredConstraints:
    """The same constraints with other weights in nats, by name; those not named and hard ones keep theirs."""
    named = zip(constraints.templates, constraints.titles, strict=True)
    templates = tuple(
        t.model_copy(update={"name": title, "weight": weights[title]})
        if isinstance(t, RowTemplate) and title in weights and math.isfinite(t.weight)
        else t.model_copy(update={"name": title})
        for t, title in named
    )
    return DeclaredConstraints(templates, constraints.origins)
