"""Clauses as constraints: which template says what a clause says, or why none does.

A row speaks of places whose distance is known. Literals about one border of a run, the runs and tokens on its two
sides, are forbidden edges: `should_not_precede`, `adjacency` or, with a mark, a `linear` row a token. Literals about
both borders are none, as nothing says how long the run is. What was seen earlier is `before`, `presence_precedence` or
`appears_once`; the document's first and last run are `starts_with`, `should_be_tagged` and `begin_end`, which has no
row in a document of one token.
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
from concord.workers.learning.mining.logic.openings import MARKS, SIDES, Literal, LiteralSide, Place, names_of
from concord.workers.learning.mining.rules import UNWEIGHED

REST = r"[\s\S]"
"""Any character, a line's end too."""

LabelNames = tuple[str, ...]


class Unsaid(NamedTuple):
    """Why no template says a clause."""

    reason: str


PLACES = Unsaid("speaks of places whose distance is not known")
TESTS = Unsaid("tests several tokens, or one of them twice")
ENDS = Unsaid("speaks of the document's ends and of runs anywhere")
SEVERAL = Unsaid("speaks of several types earlier, or of one that it forbids")
NEVER = Unsaid("contradicts itself and never binds")
SENTENCE = Unsaid("speaks of where sentences end")


def template_of(clause: Clause, labels: LabelSet) -> RowTemplate | Unsaid:
    """A constraint of `UNWEIGHED` nats that is broken in the documents in which the clause is."""
    every = names_of(labels)
    allowed = tuple(name for name in every if (name == clause.label) == clause.wanted)
    rule = _Rule(clause.name, labels, clause.literals, every, allowed)
    if not all(map(rule.at, (Place.BEFORE, Place.AFTER, Place.FIRST, Place.LAST))):
        return NEVER
    sides = {SIDES[literal.place] for literal in clause.literals}
    return TEMPLATES[sides.pop()](rule) if len(sides) == 1 else PLACES


class _Rule(NamedTuple):
    """A clause with the names of all types, and of those that it allows."""

    name: str
    labels: LabelSet
    literals: tuple[Literal, ...]
    every: LabelNames
    allowed: LabelNames

    @property
    def forbidden(self) -> LabelNames:
        return _without(self.every, self.allowed)

    def at(self, place: Place) -> LabelNames:
        """The types that the literals let be at a place."""
        own = [literal for literal in self.literals if literal.place is place and literal.value]
        return tuple(name for name in self.every if all((name == one.value) == one.holds for one in own))

    def made(self, template: type[RowTemplate], **fields: object) -> RowTemplate:
        """A constraint."""
        return template.model_validate({"name": self.name, "weight": UNWEIGHED, **fields})


def _border(rule: _Rule, place: Place, *, opens: bool) -> RowTemplate | Unsaid:
    """Of the border where runs open, or where they close; ``place`` is the run on its other side."""
    if Literal(place, holds=False) in rule.literals:
        alone = opens and len(rule.literals) == 1
        return rule.made(StartsWith, labels=rule.allowed, scope=Scope.SENTENCE) if alone else SENTENCE
    tests = [literal for literal in rule.literals if literal.place in MARKS]
    if len(tests) > 1:
        return TESTS
    beside, sides = rule.at(place), (rule.at(place), rule.forbidden)
    first, second = sides if opens else sides[::-1]
    edges = np.outer(*(label_mask(rule.labels, names) for names in (first, second)))
    wanted = edges & ~same_run(rule.labels)
    if not tests:
        if (edges == wanted).all():
            return rule.made(ShouldNotPrecede, first=first, second=second)
        followers = tuple(name for name in rule.every if name in first or name not in second)
        if followers != rule.every and (wanted == _all_but(rule.labels, first, followers)).all():
            return rule.made(Adjacency, first=first, second=followers)
    return _row(rule, beside, wanted, tests, opens=opens)


def _all_but(labels: LabelSet, first: LabelNames, second: LabelNames) -> Mask:
    """(L, L) the edges that `adjacency` forbids."""
    edges: Mask = np.outer(label_mask(labels, first), ~label_mask(labels, second))
    return edges


def _row(rule: _Rule, beside: LabelNames, forbidden: Mask, tests: Sequence[Literal], *, opens: bool) -> RowTemplate:
    """1[the label beside the border is one of these] − Σ 1[edges not forbidden there] ≤ 0 at each token that is tested.

    With an edge an entry the row would have nothing that it speaks of but what breaks it.
    """
    there = label_mask(rule.labels, beside)
    kept = (there[:, None] if opens else there) & ~forbidden
    # The token that is tested is the first or the second of the edge's two.
    later = any(literal.place in (Place.MARK_BEFORE, Place.MARK_LAST) for literal in tests)
    terms = [Term(label=beside, offset=int(later) - int(opens))]
    terms += [
        Term(previous=before, label=after, coefficient=-1.0, offset=int(later))
        for before, after in _products(rule.labels, kept)
    ]
    test = _test(tests[0]) if tests else None
    return rule.made(Linear, terms=tuple(terms), each="token", tokens=test)


def _products(labels: LabelSet, edges: Mask) -> Iterator[tuple[LabelNames, LabelNames]]:
    """Edges (L, L) as products of sets of labels, no edge twice."""
    rows, row_of = np.unique(edges, axis=0, return_inverse=True)
    for i, row in enumerate(rows):
        if row.any():
            yield _named(labels, row_of.ravel() == i), _named(labels, row)


def _named(labels: LabelSet, inside: Mask) -> LabelNames:
    """Labels (L,) by name: types of which all labels are inside, and the others one by one."""
    whole = [name for name in labels.types if inside[label_mask(labels, (name,))].all()]
    left = inside & ~label_mask(labels, tuple(whole)) if whole else inside
    return (*whole, *(labels.names[i] for i in np.flatnonzero(left).tolist()))


def _test(literal: Literal) -> TokenTest:
    mark = literal.value
    if literal.holds:
        return TokenTest(words=(mark,)) if mark else TokenTest(pattern=PUNCTUATION)
    if not mark:
        return TokenTest(pattern=rf"{REST}*[\w\s]{REST}*")
    return TokenTest(pattern="|".join(other_than(mark)))


def other_than(mark: str) -> Iterator[str]:
    """Patterns of all strings but one: those that leave it at a character, and those that go on."""
    for i, character in enumerate(mark):
        yield f"{re.escape(mark[:i])}(?:[^{re.escape(character)}]{REST}*)?"
    yield f"{re.escape(mark)}{REST}+"


def _of_document(rule: _Rule) -> RowTemplate | Unsaid:
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


def _of_earlier(rule: _Rule) -> RowTemplate | Unsaid:
    seen = tuple(literal.value for literal in rule.literals)
    if not any(literal.holds for literal in rule.literals):
        return rule.made(Before, first=seen, second=rule.forbidden)
    if len(seen) > 1 or (seen[0] in rule.forbidden and rule.forbidden != seen):
        return SEVERAL
    if rule.forbidden == seen:
        return rule.made(AppearsOnce, labels=seen)
    return rule.made(PresencePrecedence, first=rule.forbidden, second=seen)


def _without(names: Iterable[str], others: LabelNames) -> LabelNames:
    return tuple(name for name in names if name not in others)


TEMPLATES = {
    LiteralSide.OPENING: lambda rule: _border(rule, Place.BEFORE, opens=True),
    LiteralSide.CLOSING: lambda rule: _border(rule, Place.AFTER, opens=False),
    LiteralSide.DOCUMENT: _of_document,
    LiteralSide.EARLIER: _of_earlier,
}
