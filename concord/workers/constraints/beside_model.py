"""Label consistency that a model has learned, beside constraints that are declared: one of a kind is charged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from concord.workers.constraints.consistency import CONSISTENCY_FAMILIES, LabelConsistency
from concord.workers.constraints.constraint_set import Separable, Unconstrained
from concord.workers.constraints.declared import DeclaredConstraints, JoinedConstraints
from concord.workers.constraints.templates.registry import TEMPLATES


class JoinedConstraintSet(NamedTuple):
    """Constraints of a run, and what a user should know of how they were put together, one line each."""

    constraints: Separable
    notes: tuple[str, ...]


def joined(consistency: LabelConsistency | None, others: Sequence[Separable]) -> JoinedConstraintSet:
    """The label consistency of a model and other constraints as one set.

    A family of agreements that was learned and is declared, too, would be charged twice: for all types the declared
    entry replaces the learned family, for some types both are charged, and the note says so. Raises `ConstraintError`.
    """
    every, notes = list(others), list[str]()
    if consistency is not None:
        declared = [entry for part in others if isinstance(part, DeclaredConstraints) for entry in _families_in(part)]
        replaced = frozenset(entry.family for entry in declared if entry.is_whole)
        rest = replace(consistency, replaced=replaced)
        notes = [_note_of(entry, rest) for entry in declared if entry.family in consistency.titles]
        every = [rest, *others] if rest.names else every
    if not every:
        return JoinedConstraintSet(Unconstrained(), ())
    return JoinedConstraintSet(every[0] if len(every) == 1 else JoinedConstraints(tuple(every)), tuple(notes))


class _DeclaredFamily(NamedTuple):
    """An entry that declares agreements of a kind that models learn; ``is_whole``: of all types?"""

    title: str
    family: str
    is_whole: bool


def _families_in(declared: DeclaredConstraints) -> Iterator[_DeclaredFamily]:
    for title, template in zip(declared.titles, declared.templates, strict=True):
        family = TEMPLATES.name_of(type(template))
        if family in CONSISTENCY_FAMILIES:
            yield _DeclaredFamily(title, family, template.model_dump()["labels"] is None)


def _note_of(entry: _DeclaredFamily, rest: LabelConsistency) -> str:
    if entry.family in rest.titles:
        return (
            f"constraint {entry.title!r} is charged on top of the label consistency ({entry.family}) that the model "
            "has learned; leave it out, or use --no-consistency"
        )
    return f"constraint {entry.title!r} replaces the label consistency ({entry.family}) that the model has learned"
