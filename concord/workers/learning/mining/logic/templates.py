"""Clauses as constraints: the template that expresses a clause, or the reason why none does.

A row is about positions whose distance is known. Which template fits depends on what the literals are about:

- one border of a run (the runs and tokens on its two sides): forbidden edges, by `should_not_precede`, `adjacency` or,
  with a mark, a `linear` row for each token;
- both borders: none, since the length of the run is not known;
- earlier runs: `before`, `presence_precedence` or `appears_once`;
- the document's first and last run: `starts_with`, `should_be_tagged` or `begin_end`; the last has no row in a document
  of one token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Mask
from concord.schemas.labels import LabelSet
from concord.workers.constraints.templates.linear import Linear, Term
from concord.workers.constraints.templates.order import (
    Adjacency,
    Before,
    BeginEnd,
    PresencePrecedence,
    ShouldNotPrecede,
)
from concord.workers.constraints.templates.presence import StartsWith
from concord.workers.constraints.templates.runs import AppearsOnce
from concord.workers.constraints.templates.template import (
    PUNCTUATION,
    RowTemplate,
    Scope,
    TokenTest,
    label_mask,
    same_run,
)
from concord.workers.constraints.templates.words import ShouldBeTagged
from concord.workers.learning.mining.logic.clauses import Clause
from concord.workers.learning.mining.logic.openings import MARKS, SIDE_OF, Literal, LiteralSide, Place, names_of
from concord.workers.learning.mining.rules import UNWEIGHED

REST = r"[\s\S]"
"""Pattern of any character, line ends included."""

LabelNames = tuple[str, ...]


class Unsaid(NamedTuple):
    """Reason why no template expresses a clause."""

    reason: str


PLACES = Unsaid("speaks of places whose distance is not known")
TESTS = Unsaid("tests several tokens, or one of them twice")
ENDS = Unsaid("speaks of the document's ends and of runs anywhere")
SEVERAL = Unsaid("speaks of several types earlier, or of one that it forbids")
NEVER = Unsaid("contradicts itself and never binds")
SENTENCE = Unsaid("speaks of where sentences end")


def template_of(clause: Clause, labels: LabelSet) -> RowTemplate | Unsaid:
    """A constraint of `UNWEIGHED` nats that is broken in the same documents as the clause, or the reason for none."""
    every = names_of(labels)
    allowed = tuple(name for name in every if (name == clause.label) == clause.positive)
    rule = _ClauseRule(clause.name, labels, clause.literals, every, allowed)
    if not all(map(rule.at, (Place.BEFORE, Place.AFTER, Place.FIRST, Place.LAST))):
        return NEVER
    sides = {SIDE_OF[literal.place] for literal in clause.literals}
    return RULE_WRITERS[sides.pop()](rule) if len(sides) == 1 else PLACES


class _ClauseRule(NamedTuple):
    """A clause with the names of all types (``every``), and of the types that it allows."""

    name: str
    labels: LabelSet
    literals: tuple[Literal, ...]
    every: LabelNames
    allowed: LabelNames

    @property
    def forbidden(self) -> LabelNames:
        return _without(self.every, self.allowed)

    def at(self, place: Place) -> LabelNames:
        """The types that the literals permit at a place."""
        own = [literal for literal in self.literals if literal.place is place and literal.value]
        return tuple(name for name in self.every if all((name == one.value) == one.holds for one in own))

    def made(self, template: type[RowTemplate], **fields: object) -> RowTemplate:
        """A constraint of the template, with the clause's name."""
        return template.model_validate({"name": self.name, "weight": UNWEIGHED, **fields})


def _border(rule: _ClauseRule, place: Place, *, opens: bool) -> RowTemplate | Unsaid:
    """Constraint for literals about the border where runs open, or close; ``place`` is the run on its other side."""
    if Literal(place, holds=False) in rule.literals:
        alone = opens and len(rule.literals) == 1
        return rule.made(StartsWith, labels=rule.allowed, scope=Scope.SENTENCE) if alone else SENTENCE
    tests = [literal for literal in rule.literals if literal.place in MARKS]
    if len(tests) > 1:
        return TESTS
    beside, sides = rule.at(place), (rule.at(place), rule.forbidden)
    first, second = sides if opens else sides[::-1]
    edges = np.outer(*(label_mask(rule.labels, names) for names in (first, second)))
    forbidden = edges & ~same_run(rule.labels)
    if not tests:
        if (edges == forbidden).all():
            return rule.made(ShouldNotPrecede, first=first, second=second)
        followers = tuple(name for name in rule.every if name in first or name not in second)
        if followers != rule.every and (forbidden == _all_but(rule.labels, first, followers)).all():
            return rule.made(Adjacency, first=first, second=followers)
    return _row(rule, beside, forbidden, tests, opens=opens)


def _all_but(labels: LabelSet, first: LabelNames, second: LabelNames) -> Mask:
    """(L, L) mask of the edges that `adjacency` forbids."""
    edges: Mask = np.outer(label_mask(labels, first), ~label_mask(labels, second))
    return edges


def _row(
    rule: _ClauseRule, beside: LabelNames, forbidden: Mask, tests: Sequence[Literal], *, opens: bool
) -> RowTemplate:
    """Linear row for each token that passes the test: 1[label beside the border ∈ beside] − Σ 1[permitted edges] ≤ 0.

    With one entry for each forbidden edge instead, the antecedent of the row would be its violation.
    """
    there = label_mask(rule.labels, beside)
    permitted = (there[:, None] if opens else there) & ~forbidden
    # The tested token is the first or the second one of the edge.
    later = any(literal.place in (Place.MARK_BEFORE, Place.MARK_LAST) for literal in tests)
    terms = [Term(label=beside, offset=int(later) - int(opens))]
    terms += [
        Term(previous=before, label=after, coefficient=-1.0, offset=int(later))
        for before, after in _products(rule.labels, permitted)
    ]
    test = _test(tests[0]) if tests else None
    return rule.made(Linear, terms=tuple(terms), each="token", tokens=test)


def _products(labels: LabelSet, edges: Mask) -> Iterator[tuple[LabelNames, LabelNames]]:
    """Edges (L, L) as products of sets of labels; each edge is in one product."""
    rows, row_of = np.unique(edges, axis=0, return_inverse=True)
    for i, row in enumerate(rows):
        if row.any():
            yield _named(labels, row_of.ravel() == i), _named(labels, row)


def _named(labels: LabelSet, inside: Mask) -> LabelNames:
    """Names of the labels ``inside`` (L,): types if all their labels are inside, and the other labels one by one."""
    whole = [name for name in labels.types if inside[label_mask(labels, (name,))].all()]
    single = inside & ~label_mask(labels, tuple(whole)) if whole else inside
    return (*whole, *(labels.names[i] for i in np.flatnonzero(single).tolist()))


def _test(literal: Literal) -> TokenTest:
    mark = literal.value
    if literal.holds:
        return TokenTest(words=(mark,)) if mark else TokenTest(pattern=PUNCTUATION)
    if not mark:
        return TokenTest(pattern=rf"{REST}*[\w\s]{REST}*")
    return TokenTest(pattern="|".join(other_than(mark)))


def other_than(mark: str) -> Iterator[str]:
    """Patterns that match all strings except one: strings that differ from it at some character, or are longer."""
    for i, character in enumerate(mark):
        yield f"{re.escape(mark[:i])}(?:[^{re.escape(character)}]{REST}*)?"
    yield f"{re.escape(mark)}{REST}+"


def _of_document(rule: _ClauseRule) -> RowTemplate | Unsaid:
    begins, ends = (Literal(place) in rule.literals for place in (Place.BEGINS, Place.ENDS))
    match begins, ends, {literal.place for literal in rule.literals}:
        case True, False, places if places <= {Place.BEGINS, Place.LAST}:
            if len(places) == 1:
                return rule.made(StartsWith, labels=rule.allowed)
            return rule.made(BeginEnd, begin=rule.forbidden, end=_without(rule.every, rule.at(Place.LAST)))
        case False, True, places if places <= {Place.ENDS, Place.FIRST}:
            if len(places) == 1:
                return rule.made(ShouldBeTagged, labels=rule.allowed, position=-1)
            return rule.made(BeginEnd, begin=rule.at(Place.FIRST), end=rule.allowed)
    return ENDS


def _of_earlier(rule: _ClauseRule) -> RowTemplate | Unsaid:
    types = tuple(literal.value for literal in rule.literals)
    if not any(literal.holds for literal in rule.literals):
        return rule.made(Before, first=types, second=rule.forbidden)
    if len(types) > 1 or (types[0] in rule.forbidden and rule.forbidden != types):
        return SEVERAL
    if rule.forbidden == types:
        return rule.made(AppearsOnce, labels=types)
    return rule.made(PresencePrecedence, first=rule.forbidden, second=types)


def _without(names: Iterable[str], others: LabelNames) -> LabelNames:
    return tuple(name for name in names if name not in others)


RULE_WRITERS = {
    LiteralSide.OPENING: lambda rule: _border(rule, Place.BEFORE, opens=True),
    LiteralSide.CLOSING: lambda rule: _border(rule, Place.AFTER, opens=False),
    LiteralSide.DOCUMENT: _of_document,
    LiteralSide.EARLIER: _of_earlier,
}
