"""From a document and a set of constraints to the ground problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from schemas.document import Document
from schemas.labels import LabelSet
from schemas.potentials import Potentials
from schemas.problem import LinearRows, Problem, SpanAgreement


class ConstraintSet(Protocol):
    """Anything that grounds on a document.

    ``names`` (K,) are the constraints, in the order of every report; ``digest`` is a hex digest
    of all that decides the grounding.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """(K,) constraint names; rows and agreements index them."""
        ...

    @property
    def digest(self) -> str:
        """Equal digests ground alike."""
        ...

    def ground(self, document: Document, labels: LabelSet) -> tuple[LinearRows, tuple[SpanAgreement, ...]]:
        """The document's linear rows and span agreements."""
        ...

    def adjust(self, document: Document, potentials: Potentials, labels: LabelSet) -> Potentials:
        """The potentials with declared local features added; the same object where there are none."""
        ...


@dataclass(frozen=True)
class Unconstrained:
    """No constraint but the label set's legality."""

    names: tuple[str, ...] = ()
    digest: str = "none"

    def ground(self, document: Document, labels: LabelSet) -> tuple[LinearRows, tuple[SpanAgreement, ...]]:
        """Nothing."""
        del document, labels
        return LinearRows.none(), ()

    def adjust(self, document: Document, potentials: Potentials, labels: LabelSet) -> Potentials:
        """The potentials as they are."""
        del document, labels
        return potentials


def build_problem(document: Document, potentials: Potentials, labels: LabelSet, constraints: ConstraintSet) -> Problem:
    """The ground problem of one document; the label set's legality is part of it."""
    rows, agreements = constraints.ground(document, labels)
    adjusted = constraints.adjust(document, potentials, labels)
    return Problem(adjusted.legal(labels), labels, constraints.names, rows, agreements)
