"""Clauses over openings of runs, counts of samples, and verdicts of clauses on documents.

A clause is l₁ ∧ … ∧ l_k ⇒ the run is of type A, or: is not of type A. A labelling breaks it at a run where all literals
hold and the type is wrong. So the literals of a good clause cover samples of one class and none of the others. A clause
"is not A" stands for all other classes together: "after a title comes no author" covers runs of a dozen types, and
would take a dozen clauses of the form "is …".

A trial is a document, as when rules are counted. A clause binds in a document with a run where all literals hold; a
clause "is not A" only if there is also a run of A somewhere. It holds if no run breaks it. The share by chance comes
from the same runs in other orders (`Runs.shuffled`), between the same marks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Ids, Ints, Mask
from concord.schemas.document import Batch
from concord.schemas.labels import LabelSet
from concord.workers.constraints.templates.template import Site
from concord.workers.learning.mining.logic.openings import (
    MARK_COLUMNS,
    MARKS,
    Literal,
    Marks,
    Openings,
    Place,
    names_of,
    openings_of,
    part_of,
)
from concord.workers.learning.mining.rule_counts import billionths, blocks
from concord.workers.learning.mining.run_order import Runs


class Clause(NamedTuple):
    """Clause: if all literals hold, the run's type is ``label``; if not ``positive``, it is another type."""

    literals: tuple[Literal, ...]
    label: str
    positive: bool = True

    @property
    def name(self) -> str:
        """Name in files and reports."""
        return f"{', '.join(map(text_of, self.literals))}: {'' if self.positive else 'no '}{self.label}"

    def verdict(self, samples: Openings, runs: Runs) -> tuple[Mask, Mask]:
        """Two masks (D,): documents in which the clause binds, and those of them where it holds."""
        first = runs.starts[:-1]
        own = samples.codes[:, 0] == samples.names.index(self.label)
        truth = np.logical_and.reduce([samples.truth(literal) for literal in self.literals])
        binds = np.logical_or.reduceat(truth, first)
        if not self.positive:
            binds &= np.logical_or.reduceat(own, first)
        return binds, binds & ~np.logical_or.reduceat(truth & (own != self.positive), first)


SAYINGS = {
    Place.BEFORE: "after {}",
    Place.AFTER: "before {}",
    Place.FIRST: "where {} is first",
    Place.LAST: "where {} is last",
    Place.BEGINS: "first",
    Place.ENDS: "last",
    Place.MARK_BEFORE: "behind {}",
    Place.MARK_FIRST: "from {}",
    Place.MARK_LAST: "up to {}",
    Place.MARK_AFTER: "in front of {}",
    Place.EARLIER: "once {} was there",
}
ANYTHING = {Place.BEFORE: "a run", Place.AFTER: "a run", **dict.fromkeys(MARKS, "a mark")}
"""Text for a literal without a value."""


def text_of(literal: Literal) -> str:
    """Text of a literal; marks are quoted."""
    named = repr(literal.value) if literal.place in MARKS else literal.value
    text = SAYINGS[literal.place].format(named if literal.value else ANYTHING.get(literal.place, ""))
    return text if literal.holds else f"not {text}"


@dataclass(frozen=True, eq=False)
class OpeningCounts:
    """Distinct samples of the documents to learn from, with their numbers.

    - ``documents``: documents read.
    - ``rejected``: documents that could not be read.
    - ``learned``: documents to learn from: those with gold that are not held out.
    - ``marks``: marks by number.
    - ``codes`` (V, C): codes of each distinct sample, ascending, see `Openings`.
    - ``counts`` (V,): number of samples with these codes.
    """

    documents: int
    rejected: int
    learned: int
    marks: tuple[str, ...] = ()
    codes: Ids = field(default_factory=lambda: np.zeros((0, 0), np.int32))
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def of(
        cls, batch: Batch, labels: LabelSet, *, held_out: float, first: int | None = None, rejected: int = 0
    ) -> OpeningCounts:
        """Samples of the documents that are not held out, see `part_of`. Raises `LabelError` for unknown labels."""
        training = part_of(batch, held_out, held_out=False, first=first)
        parts = [cls(len(batch), rejected, 0 if training.labels is None else len(training))]
        for part, gold in blocks(training, labels):
            runs = Runs.of(part, gold, labels)
            samples = openings_of(runs, runs.types, Marks.of(Site(part, labels)), names_of(labels))
            parts.append(cls(0, 0, 0, samples.marks, samples.codes, np.ones(len(samples.codes), np.int64)))
        return cls.merge(parts)

    @classmethod
    def merge(cls, parts: Iterable[OpeningCounts]) -> OpeningCounts:
        """The samples of all parts together."""
        shares = list(parts)
        filled = [part for part in shares if len(part.codes)]
        documents, rejected = sum(part.documents for part in shares), sum(part.rejected for part in shares)
        documents_read = sum(part.learned for part in shares)
        if not filled:
            return cls(documents, rejected, documents_read)
        marks = tuple(sorted({mark for part in filled for mark in part.marks}))
        every = np.concatenate([_recoded(part, marks) for part in filled])
        codes, place = np.unique(every, axis=0, return_inverse=True)
        counts = np.zeros(len(codes), np.int64)
        np.add.at(counts, place.ravel(), np.concatenate([part.counts for part in filled]))
        return cls(documents, rejected, documents_read, marks, codes, counts)


def _recoded(part: OpeningCounts, marks: Sequence[str]) -> Ids:
    """The codes of a part, with marks renumbered by ``marks``, which has those of all parts."""
    number = {mark: 1 + i for i, mark in enumerate(marks)}
    # Code -1, nothing there, takes the last entry.
    table = np.array([0, *(number[mark] for mark in part.marks), -1], np.int32)
    codes = part.codes.copy()
    codes[:, MARK_COLUMNS] = table[codes[:, MARK_COLUMNS]]
    return codes


@dataclass(frozen=True, eq=False)
class ClauseCounts:
    """Counts of C clauses in held-out documents.

    - ``documents``: documents read.
    - ``rejected``: documents that could not be read.
    - ``tried``: held-out documents with gold.
    - ``table`` (3, C): see below; None if there are no documents or no clauses.

    The rows of the table are documents where the clause binds, documents that break it, and billionths of those in
    which it would hold by chance.
    """

    documents: int
    rejected: int
    tried: int
    table: NDArray[np.int64] | None = None

    @classmethod
    def of(
        cls,
        batch: Batch,
        labels: LabelSet,
        clauses: Sequence[Clause],
        *,
        held_out: float,
        orders: int,
        seed: int,
        first: int | None = None,
        rejected: int = 0,
    ) -> ClauseCounts:
        """Counts in the held-out documents, see `part_of`. Raises `LabelError` for labels of no such name."""
        held = part_of(batch, held_out, held_out=True, first=first)
        parts = [cls(len(batch), rejected, 0 if held.labels is None else len(held))]
        for part, gold in blocks(held, labels):
            runs, marks = Runs.of(part, gold, labels), Marks.of(Site(part, labels))
            parts.append(cls(0, 0, 0, _tried(runs, marks, labels, clauses, orders, seed) if clauses else None))
        return cls.merge(parts)

    @classmethod
    def merge(cls, parts: Iterable[ClauseCounts]) -> ClauseCounts:
        """The counts of all parts together."""
        counts = list(parts)
        tables = [part.table for part in counts if part.table is not None]
        return cls(
            sum(part.documents for part in counts),
            sum(part.rejected for part in counts),
            sum(part.tried for part in counts),
            np.sum(tables, axis=0) if tables else None,
        )


def _tried(
    runs: Runs, marks: Marks, labels: LabelSet, clauses: Sequence[Clause], orders: int, seed: int
) -> NDArray[np.int64]:
    """Table (3, C), see `ClauseCounts`."""
    verdicts = [_verdicts(runs, types, marks, labels, clauses) for types in (runs.types, *runs.shuffled(orders, seed))]
    binds, holds = verdicts[0]
    # Gold is one of the orders, so the share is defined where gold binds, and never 0 where gold holds.
    bound, kept_orders = (np.sum([verdict[i] for verdict in verdicts], axis=0) for i in range(2))
    chance = binds * billionths(kept_orders, bound)
    return np.stack([binds.sum(axis=1), (binds & ~holds).sum(axis=1), chance.sum(axis=1)])


def _verdicts(runs: Runs, types: Ints, marks: Marks, labels: LabelSet, clauses: Sequence[Clause]) -> tuple[Mask, Mask]:
    """Two masks (C, D): where each clause binds, and where it holds, if the runs have these types (R,)."""
    samples = openings_of(runs, types, marks, names_of(labels))
    binds, holds = zip(*(clause.verdict(samples, runs) for clause in clauses), strict=True)
    return np.stack(binds), np.stack(holds)
