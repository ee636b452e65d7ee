"""Weights of declared constraints, counted on labelled documents: Chang, Ratinov & Roth (2008) §4.

A constraint's weight ρ is the logarithm of how much likelier its rows hold in gold than break. A row
can break by more than one unit, so that is spread over the units a broken row has in gold:

    ρ = log((n − b + ½) / (b + ½)) / (degree of broken rows / b),    n rows, b of them broken,

and never below 0. The halves keep a constraint that gold never breaks soft.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from schemas.document import Batch, Document
from schemas.labels import LabelSet
from workers.constraints.declared import DeclaredConstraints
from workers.constraints.templates.template import RowTemplate

PRIOR = 0.5
"""Rows that hold, and rows that break, taken as seen before anything is counted."""


class PenaltyCount(NamedTuple):
    """A constraint's rows in gold, how many are broken, their degree together, and the weight in nats."""

    rows: int
    broken: int
    degree: float
    weight: float


def count_weights(
    constraints: DeclaredConstraints, documents: Iterable[Document], labels: LabelSet
) -> dict[str, PenaltyCount]:
    """Counts of every constraint that grounds to rows, by name, on documents with gold labels.

    Raises `ValueError` for a document without gold labels and `LabelError` for labels that are not in
    ``labels``.
    """
    rows = np.zeros(len(constraints.names))
    broken, degrees = np.zeros_like(rows), np.zeros_like(rows)
    for document in documents:
        if document.labels is None:
            raise ValueError(f"document {document.doc_id!r} has no gold labels to count on")
        ((ground, _),) = constraints.ground(Batch.of([document]), labels)
        degree = ground.degree(labels.encode(document.labels.strings()))
        rows += np.bincount(ground.constraint, minlength=len(rows))
        broken += np.bincount(ground.constraint[degree > 0], minlength=len(rows))
        degrees += np.bincount(ground.constraint, degree, len(rows))
    counted = {t for t, template in _by_name(constraints).items() if isinstance(template, RowTemplate)}
    table = zip(constraints.names, rows.tolist(), broken.tolist(), degrees.tolist(), strict=True)
    return {name: PenaltyCount(int(n), int(b), d, _weight(n, b, d)) for name, n, b, d in table if name in counted}


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


def _weight(rows: float, broken: float, degree: float) -> float:
    odds = math.log((rows - broken + PRIOR) / (broken + PRIOR))
    return max(0.0, odds) / (degree / broken if broken else 1.0)


def _by_name(constraints: DeclaredConstraints) -> dict[str, object]:
    return dict(zip(constraints.titles, constraints.templates, strict=True))
