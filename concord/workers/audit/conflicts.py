"""Constraints that cannot hold together: feasibility by CP-SAT, and smallest conflicting sets by deletion."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from concord.schemas.audit import Conflict
from concord.schemas.decoded import Budget, Status
from concord.schemas.document import Document
from concord.schemas.labels import LabelSet
from concord.schemas.potentials import Potentials
from concord.schemas.problem import Problem
from concord.workers.constraints.constraint_set import build_problem
from concord.workers.constraints.declared import DeclaredConstraints
from concord.workers.constraints.rows import selected
from concord.workers.inference.registry import Decoder

CONFLICT_ENGINE = "cpsat"
CONFLICT_WORK = 2_000
"""Largest work of one question of feasibility, in milliseconds of CP-SAT's deterministic time."""
MOST_CONFLICTS = 20
"""Largest number of different conflicting sets that are looked for."""


class UndecidedError(RuntimeError):
    """The limit of work was reached before it was known whether constraints can hold together."""


@dataclass
class Conflicts:
    """The conflicting sets found so far, over documents seen one after the other.

    - ``constraints``: the constraints.
    - ``labels``: the label set.
    - ``hard``: names of the hard constraints.
    - ``documents``: ids of those with each conflicting set, by the names in it.
    - ``searched``: number of documents searched.
    - ``undecided``: number of documents in which the limit of work was reached.

    Every constraint is taken as hard: two soft ones that can never both hold are worth knowing too.
    """

    constraints: DeclaredConstraints
    labels: LabelSet
    hard: frozenset[str]
    documents: dict[tuple[str, ...], list[str]] = field(default_factory=dict)
    searched: int = 0
    undecided: int = 0

    def look_at(self, document: Document) -> None:
        """Adds a conflict of the document, if there is one: among the hard constraints, or else among all."""
        self.searched += 1
        problem = strict_problem(document, self.labels, self.constraints)
        everything = list(range(len(self.constraints.names)))
        hard = [k for k in everything if self.constraints.names[k] in self.hard]
        try:
            for group in (hard, everything):
                if group and self._conflict_in(problem, group, document.doc_id):
                    return
        except UndecidedError:
            self.undecided += 1

    def report(self) -> tuple[Conflict, ...]:
        """The conflicts: hard ones first, then by the number of documents that have them."""
        conflicts = [
            Conflict(constraints=names, hard=set(names) <= self.hard, documents=len(ids), doc_id=ids[0])
            for names, ids in self.documents.items()
        ]
        return tuple(sorted(conflicts, key=lambda c: (not c.hard, -c.documents, c.constraints)))

    def _conflict_in(self, problem: Problem, group: Sequence[int], doc_id: str) -> bool:
        if feasible(problem, group, doc_id):
            return False
        names = self.constraints.names
        inside = set(group)
        present = {*problem.rows.constraint.tolist(), *(a.constraint for a in problem.agreements)}
        for earlier, ids in self.documents.items():
            places = [names.index(name) for name in earlier]
            here = inside.issuperset(places) and present.issuperset(places)
            if here and not feasible(problem, places, doc_id):
                ids.append(doc_id)
                return True
        if len(self.documents) >= MOST_CONFLICTS:
            raise UndecidedError
        smallest = smallest_conflict(problem, group, doc_id)
        self.documents[tuple(names[k] for k in smallest)] = [doc_id]
        return True


def strict_problem(document: Document, labels: LabelSet, constraints: DeclaredConstraints) -> Problem:
    """The document under flat local scores, with every constraint hard: a question of feasibility alone."""
    size = len(labels)
    flat = Potentials(np.zeros((len(document), size)), np.zeros((size, size)), document.sentence_starts)
    problem = build_problem(document, flat, labels, constraints)
    rows = replace(problem.rows, weight=np.where(problem.rows.weight > 0, np.inf, 0.0))
    strict = [replace(a, cost=np.where(a.cost > 0, np.inf, 0.0)) for a in problem.agreements]
    return replace(problem, potentials=flat.legal(labels), rows=rows, agreements=tuple(strict))


def feasible(problem: Problem, group: Iterable[int], doc_id: str) -> bool:
    """Can the constraints of ``group`` (indices) all hold? Raises `UndecidedError` at the limit of work."""
    in_group = np.zeros(len(problem.constraint_names), np.bool_)
    in_group[list(group)] = True
    part = replace(
        problem,
        rows=selected(problem.rows, in_group[problem.rows.constraint]),
        agreements=tuple(a for a in problem.agreements if in_group[a.constraint]),
    )
    decoded = Decoder.of(CONFLICT_ENGINE, budget=Budget(work=CONFLICT_WORK))(part, doc_id)
    if decoded.status is Status.INFEASIBLE:
        return False
    if decoded.penalty > 0:
        raise UndecidedError
    return True


def smallest_conflict(problem: Problem, group: Sequence[int], doc_id: str) -> list[int]:
    """A part of an infeasible group that becomes feasible without any one of its members (deletion-based).

    It takes one question of feasibility for each member. Raises `UndecidedError`.
    """
    members = list(group)
    for k in group:
        rest = [other for other in members if other != k]
        if not feasible(problem, rest, doc_id):
            members = rest
    return members
