"""Weights of declared constraints, in nats, and copies of the constraints with other weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.templates.template import AgreementTemplate, RowTemplate

WEIGHED = RowTemplate, AgreementTemplate
"""Templates with a weight; the others adjust local scores."""


def row_weights(constraints: DeclaredConstraints) -> Iterator[tuple[str, float]]:
    """Name and declared weight (inf: hard) of every constraint that grounds to rows."""
    for title, template in zip(constraints.titles, constraints.templates, strict=True):
        if isinstance(template, RowTemplate):
            yield title, template.weight


def declared_weights(constraints: DeclaredConstraints) -> Iterator[tuple[str, float]]:
    """Name and declared weight (inf: hard) of every constraint: rows and agreements."""
    for title, template in zip(constraints.titles, constraints.templates, strict=True):
        if isinstance(template, WEIGHED):
            yield title, template.weight


def with_weights(constraints: DeclaredConstraints, weights: Mapping[str, float]) -> DeclaredConstraints:
    """The same constraints with other ``weights`` in nats, by name; hard ones and those not named keep theirs."""
    named = zip(constraints.templates, constraints.titles, strict=True)
    templates = tuple(
        t.model_copy(update={"name": title, "weight": weights[title]})
        if isinstance(t, WEIGHED) and title in weights and math.isfinite(t.weight)
        else t.model_copy(update={"name": title})
        for t, title in named
    )
    return DeclaredConstraints(templates, constraints.origins)
