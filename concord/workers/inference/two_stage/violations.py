"""Charges of broken rows in the second stage: by degree, or once however far a row is broken.

Fersini et al. (2014) have a 0/1 variable σ for each row (eq. 26, 29), so a row costs its weight or nothing; elsewhere
in this project it costs its weight times its degree. Their rows are Σ − σ ≤ bound, which no labelling keeps that
exceeds the bound by 2; they mean that σ = 1 lifts the row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from concord.schemas.arrays import Floats
from concord.schemas.labels import Labels
from concord.schemas.problem import ANY, LinearRows, Problem
from concord.workers.inference.core.prepared import Prepared


@dataclass(frozen=True, eq=False)
class Violations:
    """The charges of labellings of ``problem``: for rows ``once``, or by their degree; for agreements as ever."""

    problem: Prepared
    once: bool

    def penalty(self, labels: Labels) -> float:
        """Nats that a labelling (N,) costs; inf if it breaks a hard constraint."""
        if not self.once:
            return self.problem.score(labels).penalty
        rows = self.problem.rows
        broken = rows.degree(labels) > 0
        return float(rows.weight[broken].sum()) + self._without_rows.score(labels).penalty

    @cached_property
    def unit_weights(self) -> Floats:
        """(R,) nats for each unit of degree by which no labelling is charged more than it costs.

        If degrees are 0 or 1, the charge is the cost.
        """
        rows = self.problem.rows
        if not self.once:
            return rows.weight
        most = most_degrees(rows)
        return rows.weight / np.where(most > rows.slack, most, 1.0)

    @cached_property
    def _without_rows(self) -> Problem:
        return self.problem.with_rows(LinearRows.none())


def most_degrees(rows: LinearRows) -> Floats:
    """(R,) upper bound of the degree of each row: at each token one label and one edge into it can count."""
    cells = np.stack([rows.row_of_entry, rows.position, rows.previous == ANY, rows.previous, rows.label])
    kinds, number = np.unique(cells, axis=1, return_inverse=True)
    amount = np.bincount(number, rows.coefficient, kinds.shape[1])
    places, place = np.unique(kinds[:3], axis=1, return_inverse=True)
    best = np.zeros(places.shape[1])
    np.maximum.at(best, place, amount)
    most: Floats = np.bincount(places[0], best, len(rows)) - rows.bound
    return most
