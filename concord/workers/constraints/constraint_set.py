"""Ground problems, made of documents and a set of constraints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from concord.schemas.document import Batch, Document
from concord.schemas.labels import LabelSet, Scheme
from concord.schemas.potentials import Potentials
from concord.schemas.problem import LinearRows, Problem, SpanAgreement
from concord.schemas.run import RuleStrengths
from concord.workers.constraints.correction_mask import with_corrections
from concord.workers.constraints.rows import ConstraintError

GROUND_TOKENS = 8_192
"""Tokens grounded at once: enough that the fixed cost of a constraint hardly counts, and few enough for memory."""
NO_RULES = RuleStrengths()
LOOSE_SPANS = (
    "constraints compare spans, which a model of loose labels can write in several ways; train it with "
    "--set legality=bio, or leave label consistency out"
)


class GroundConstraints(NamedTuple):
    """The rows and agreements of constraints on one document."""

    rows: LinearRows
    agreements: tuple[SpanAgreement, ...]


class ConstraintSet(Protocol):
    """A set of constraints that can be grounded on documents.

    - ``names`` (K,): the constraints, in the order of every report.
    - ``digest``: hex digest of everything that decides the grounding.

    The rows and agreements of a document do not depend on its batch.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """(K,) constraint names; rows and agreements index them."""
        ...

    @property
    def digest(self) -> str:
        """Hex digest; sets with equal digests ground alike."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """The token columns that a batch must have to be grounded on."""
        ...

    def ground(self, batch: Batch, labels: LabelSet) -> list[GroundConstraints]:
        """The linear rows and span agreements of each document."""
        ...

    def adjust(self, batch: Batch, potentials: Potentials, labels: LabelSet) -> Potentials:
        """The batch's potentials with declared local features added; the same object if there are none."""
        ...


class Separable(ConstraintSet, Protocol):
    """A constraint set whose entries can be left out one by one, to see the effect of each."""

    @property
    def titles(self) -> tuple[str, ...]:
        """The entries that can be left out: the constraints of ``names``, and local features."""
        ...

    @property
    def strengths(self) -> RuleStrengths:
        """Forms and weights, by which a later run compares its own constraints with these."""
        ...

    def without(self, title: str) -> Separable:
        """The set without one entry. Raises `KeyError` if no entry has that title."""
        ...


@dataclass(frozen=True)
class Unconstrained:
    """The empty set of constraints: nothing but the label set's legality."""

    names: tuple[str, ...] = ()
    digest: str = "none"
    columns: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()
    strengths: RuleStrengths = NO_RULES

    def without(self, title: str) -> Unconstrained:
        """Raises `KeyError`, as there is no entry to leave out."""
        raise KeyError(title)

    def ground(self, batch: Batch, labels: LabelSet) -> list[GroundConstraints]:
        """No rows and no agreements, for each document."""
        del labels
        return [GroundConstraints(LinearRows.none(), ())] * len(batch)

    def adjust(self, batch: Batch, potentials: Potentials, labels: LabelSet) -> Potentials:
        """The potentials, unchanged."""
        del batch, labels
        return potentials


def build_problem(document: Document, potentials: Potentials, labels: LabelSet, constraints: ConstraintSet) -> Problem:
    """The ground problem of one document, with the label set's legality."""
    (problem,) = build_problems(Batch.of([document]), potentials, labels, constraints)
    return problem


def build_problems(
    batch: Batch, potentials: Potentials, labels: LabelSet, constraints: ConstraintSet
) -> Iterator[Problem]:
    """The ground problem of each document, in order, with what can bind in it; ``potentials`` are those of the batch.
    A document's corrections forbid what contradicts them.

    About `GROUND_TOKENS` tokens are grounded at a time, when the first of their problems is asked for. Raises
    `ConstraintError` if constraints compare spans of loose labels, `DocumentError` where corrections leave no label.
    """
    for first, last in batch.runs(GROUND_TOKENS):
        part = batch.part(first, last)
        bounds = part.doc_starts.tolist()
        start = int(batch.doc_starts[first])
        local = constraints.adjust(part, potentials.part(start, start + bounds[-1]), labels).legal(labels)
        for i, ground in enumerate(constraints.ground(part, labels)):
            if ground.agreements and labels.scheme is Scheme.LOOSE:
                raise ConstraintError(LOOSE_SPANS)
            own = local.part(bounds[i], bounds[i + 1])
            corrections = part.corrections.get(part.doc_ids[i], ())
            if corrections:
                own = with_corrections(own, labels, corrections)
            yield Problem(own, labels, constraints.names, ground.rows, ground.agreements).binding()
