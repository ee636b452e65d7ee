"""Clauses that hold in held-out documents, and the constraints that express them (Fersini et al. 2014 §3.1).

Clauses were learned from other documents, so Benjamini & Hochberg's procedure has to correct only for their number.
Shuffled orders keep the runs of a document: a clause that only says that a type occurs, or occurs once, holds by chance
too, and is never kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from concord.schemas.audit import UnsaidClause
from concord.schemas.labels import LabelSet
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.templates.template import RowTemplate
from concord.workers.learning.mining.logic.clauses import ClauseCounts, OpeningCounts
from concord.workers.learning.mining.logic.search import LearnedClause, LogicSettings
from concord.workers.learning.mining.logic.templates import Unsaid, template_of
from concord.workers.learning.mining.rule_counts import BILLION
from concord.workers.learning.mining.rules import RuleTrial, any_implies, chance_of, unimplied


class TriedClause(NamedTuple):
    """A clause tested on held-out documents; see `RuleTrial`."""

    learned: LearnedClause
    n: int
    broken: int
    chance: float

    @property
    def name(self) -> str:
        """Name in files and reports."""
        return self.learned.clause.name

    @property
    def p(self) -> float:
        """Probability that the clause holds in at least as many documents by chance."""
        return chance_of(self)


def tried(clauses: Sequence[LearnedClause], counts: ClauseCounts) -> list[TriedClause]:
    """The clauses that bind in some held-out document, with their counts."""
    if counts.table is None:
        return []
    rows = zip(clauses, counts.table.T.tolist(), strict=True)
    return [TriedClause(one, n, broken, chance / BILLION / n) for one, (n, broken, chance) in rows if n]


def kept_clauses(clauses: Sequence[TriedClause], settings: LogicSettings) -> list[TriedClause]:
    """The significant clauses that hold often enough and that no others imply, in their order."""
    return unimplied(clauses, settings, lambda others, one: any_implies(implies, others, one))


def implies(one: TriedClause, other: TriedClause) -> bool:
    """Does a labelling that keeps one clause keep the other? A run of type A is of no other type."""
    first, second = one.learned.clause, other.learned.clause
    if not set(first.literals) <= set(second.literals):
        return False
    same = (first.label, first.positive) == (second.label, second.positive)
    return same or (first.positive and not second.positive and first.label != second.label)


class WrittenClauses(NamedTuple):
    """Clauses as constraints.

    - ``clauses``: clauses that a constraint can express.
    - ``constraints``: these constraints.
    - ``unsaid``: the other clauses, each with the reason.
    """

    clauses: list[TriedClause]
    constraints: DeclaredConstraints
    unsaid: list[tuple[TriedClause, str]]


def written(trials: Sequence[TriedClause], labels: LabelSet) -> WrittenClauses:
    """Clauses as constraints of `UNWEIGHED` nats. Raises `ConstraintError` for label names that cannot be used."""
    templates = [(one, template_of(one.learned.clause, labels)) for one in trials]
    rows = [(one, template) for one, template in templates if isinstance(template, RowTemplate)]
    unsaid = [(one, template.reason) for one, template in templates if isinstance(template, Unsaid)]
    constraints = DeclaredConstraints(tuple(template for _, template in rows)).bind(labels)
    return WrittenClauses([one for one, _ in rows], constraints, unsaid)


def found_by(one: TriedClause) -> str:
    """Remark on how a clause was learned, in one line."""
    covered, wrong, proven = one.learned[1:]
    proof = "no clause costs less" if proven else "that none costs less is not proven"
    return f"learned from {covered:,} runs that it covers first, {wrong:,} that it gets wrong; {proof}"


def unsaid_report(one: RuleTrial, reason: str) -> UnsaidClause:
    """Report of a clause or rule that no constraint can express."""
    return UnsaidClause.from_results(one, reason=reason)


def remarks_on(
    samples: OpeningCounts, counts: ClauseCounts, clauses: Sequence[LearnedClause], settings: LogicSettings
) -> Iterator[str]:
    """Remarks for people: the numbers of runs, documents and clauses, and how many clauses are proven to cost least."""
    proven = sum(one.proven for one in clauses)
    yield (
        f"{len(clauses):,} clauses learned from {samples.counts.sum():,} runs of {samples.learned:,} documents, "
        f"{proven:,} of them proven to cost least, tried on {counts.tried:,} held-out documents"
    )
    distinct = len(samples.counts)
    if distinct > settings.vectors:
        without = np.sort(samples.counts)[: distinct - settings.vectors].sum() / samples.counts.sum()
        yield (
            f"of {distinct:,} distinct runs the {settings.vectors:,} most frequent were learned from, without "
            f"{without:.1%} of all runs; --set vectors=N takes more"
        )
