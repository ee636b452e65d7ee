"""Openings of runs as samples with Boolean attributes, the input of mining by logic (Fersini et al. 2014 §3.1).

A sample is a token at which a run opens; its class is the run's type. Tokens inside a run are left out: they have the
label of the token before, and clauses that cover most of them would say nothing else. An attribute is a `Literal`
about the neighbouring runs, the document's first and last run, earlier runs, or the punctuation at the run's borders.

Equal samples are one row of codes, with their number. Documents are split into two parts by their ids: one is learned
from, the other is held out.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Ids, Ints, Mask
from concord.schemas.document import TOKENS, Batch
from concord.schemas.labels import OUTSIDE, LabelSet
from concord.workers.constraints.templates.template import PUNCTUATION, Site, TokenTest
from concord.workers.learning.mining.run_order import Runs
from concord.workers.learning.search.folds import is_held_out


class Place(StrEnum):
    """Places that a literal can be about, relative to the run that opens."""

    BEFORE = "before"
    """The run before in the sentence."""
    AFTER = "after"
    """The run after in the sentence."""
    FIRST = "first"
    """The document's first run, if it is not this run, or is the only run."""
    LAST = "last"
    """The document's last run, if it is not this run, or is the only run."""
    BEGINS = "begins"
    """This is the document's first run."""
    ENDS = "ends"
    """This is the document's last run."""
    MARK_BEFORE = "mark before"
    """The last token of the run before in the sentence."""
    MARK_FIRST = "mark first"
    """The run's first token, if there is a run before it in the sentence."""
    MARK_LAST = "mark last"
    """The run's last token, if there is a run after it in the sentence."""
    MARK_AFTER = "mark after"
    """The first token of the run after in the sentence."""
    EARLIER = "earlier"
    """Any earlier run of the document."""


MARKS = (Place.MARK_BEFORE, Place.MARK_FIRST, Place.MARK_LAST, Place.MARK_AFTER)
BESIDE = (Place.BEFORE, Place.AFTER)
COLUMNS = tuple(place for place in Place if place is not Place.EARLIER)
"""Places with one column of the codes each. The run's own type stands before them, the types seen earlier follow as
bits."""

MARK_COLUMNS = [1 + COLUMNS.index(place) for place in MARKS]
FIRST_BIT = 1 + len(COLUMNS)
NOWHERE, UNSEEN = -1, -2
"""Codes of a run or token that does not exist there, and of a mark that no sample has."""


class LiteralSide(StrEnum):
    """Part of a document that a literal is about."""

    OPENING = "opening"
    """The border where the run opens."""
    CLOSING = "closing"
    """The border where the run ends."""
    DOCUMENT = "document"
    """The document's first and last run."""
    EARLIER = "earlier"
    """All earlier runs."""


SIDE_OF = {
    Place.BEFORE: LiteralSide.OPENING,
    Place.MARK_BEFORE: LiteralSide.OPENING,
    Place.MARK_FIRST: LiteralSide.OPENING,
    Place.AFTER: LiteralSide.CLOSING,
    Place.MARK_LAST: LiteralSide.CLOSING,
    Place.MARK_AFTER: LiteralSide.CLOSING,
    Place.EARLIER: LiteralSide.EARLIER,
    **dict.fromkeys((Place.BEGINS, Place.ENDS, Place.FIRST, Place.LAST), LiteralSide.DOCUMENT),
}


class Literal(NamedTuple):
    """One Boolean attribute: the run or token at a place is ``value``; if not ``holds``, it is another one.

    - ``place``: the place.
    - ``value``: a type or a mark; "" for any mark or, at a neighbouring run, for the fact that there is one.
    - ``holds``: False negates the literal.

    A negated literal with a value needs something at the place: if no run follows, it is false that a run of another
    type follows.
    """

    place: Place
    value: str = ""
    holds: bool = True


class Openings(NamedTuple):
    """R samples.

    - ``names`` (K,): names of the types; the last may be outside.
    - ``marks``: marks by number.
    - ``codes`` (R, C): column 0 is the run's own type; then `COLUMNS`, then types seen earlier, as bits.

    A column of `COLUMNS` holds a type, 0 or 1, or a mark: 0 for a word, 1 + i for mark i.
    """

    names: tuple[str, ...]
    marks: tuple[str, ...]
    codes: Ids

    def truth(self, literal: Literal) -> Mask:
        """(R,) mask of the samples where a literal holds."""
        place, value, holds = literal
        if place is Place.EARLIER:
            byte, bit = divmod(self.names.index(value), 8)
            earlier: Mask = (self.codes[:, FIRST_BIT + byte] >> (7 - bit)) & 1 == int(holds)
            return earlier
        own = self.codes[:, 1 + COLUMNS.index(place)]
        there: Mask = own != NOWHERE
        if not value:
            anything: Mask = there if place in BESIDE else own > 0
            return anything if holds else ~anything & (there | (place in BESIDE))
        equal: Mask = own == self._code(place, value)
        return equal if holds else ~equal & there

    def _code(self, place: Place, value: str) -> int:
        if place not in MARKS:
            return self.names.index(value)
        return 1 + self.marks.index(value) if value in self.marks else UNSEEN

    def literals(self) -> list[Literal]:
        """All literals that these samples can have, the simplest first."""
        literals = [Literal(Place.BEGINS), Literal(Place.ENDS), Literal(Place.BEFORE), Literal(Place.AFTER)]
        literals += [Literal(place) for place in MARKS]
        for place in Place:
            values = () if place in (Place.BEGINS, Place.ENDS) else self.marks if place in MARKS else self.names
            literals += [Literal(place, value) for value in values]
        return literals + [literal._replace(holds=False) for literal in literals]


def openings_of(runs: Runs, types: Ints, marks: Marks, names: Sequence[str]) -> Openings:
    """The samples of documents, if their runs have these types (R,)."""
    document, at = runs.documents, np.arange(len(types))
    first, last = runs.starts[document], runs.starts[document + 1] - 1
    # The place before run r lies before its opening, the place after it lies after the opening of run r + 1.
    followed = np.append(runs.joined[1:], False)
    after = np.minimum(at + 1, len(types) - 1)
    columns = {
        Place.BEFORE: np.where(runs.joined, types[at - 1], NOWHERE),
        Place.AFTER: np.where(followed, types[after], NOWHERE),
        Place.FIRST: np.where((at > first) | (first == last), types[first], NOWHERE),
        Place.LAST: np.where((at < last) | (first == last), types[last], NOWHERE),
        Place.BEGINS: at == first,
        Place.ENDS: at == last,
        Place.MARK_BEFORE: np.where(runs.joined, marks.codes[runs.at - 1], NOWHERE),
        Place.MARK_FIRST: np.where(runs.joined, marks.codes[runs.at], NOWHERE),
        Place.MARK_LAST: np.where(followed, marks.codes[runs.at[after] - 1], NOWHERE),
        Place.MARK_AFTER: np.where(followed, marks.codes[runs.at[after]], NOWHERE),
    }
    bits = np.packbits(_earlier(runs, types, len(names)), axis=1)
    codes = np.column_stack([types, *(columns[place] for place in COLUMNS), bits]).astype(np.int32)
    return Openings(tuple(names), marks.names, codes)


def _earlier(runs: Runs, types: Ints, kinds: int) -> Mask:
    """(R, kinds) does the document have an earlier run of the type?"""
    before = np.zeros((len(types) + 1, kinds), np.int64)
    before[np.arange(len(types)) + 1, types] = 1
    before = np.cumsum(before, axis=0)
    earlier: Mask = before[:-1] > before[runs.starts[runs.documents]]
    return earlier


class Marks(NamedTuple):
    """Punctuation of a batch.

    - ``names``: marks with case folded, sorted.
    - ``codes`` (N,): code of each token: 0 for a word, 1 + i for mark i.
    """

    names: tuple[str, ...]
    codes: Ints

    @classmethod
    def of(cls, site: Site) -> Marks:
        """The marks of a site."""
        words = site.batch.columns[TOKENS]
        here = site.mask(TokenTest(pattern=PUNCTUATION))
        used, local = np.unique(words.codes[here], return_inverse=True)
        strings = [words.values[i].casefold() for i in used.tolist()]
        names = tuple(sorted(set(strings)))
        codes = np.zeros(len(here), np.int64)
        codes[here] = np.array([1 + names.index(mark) for mark in strings], np.int64)[local]
        return cls(names, codes)


def names_of(labels: LabelSet) -> tuple[str, ...]:
    """Names of the classes: span types and, last, outside if the label set has it."""
    return (*labels.types, OUTSIDE) if OUTSIDE in labels.names else labels.types


def part_of(batch: Batch, share: float, *, held_out: bool, first: int | None = None) -> Batch:
    """The documents of a batch that are held out, or the others.

    Held out are the documents from index ``first`` on; if it is not given, a fraction ``share`` of all, by their ids.
    """
    held = (is_held_out(own.doc_id, share) if first is None else i >= first for i, own in enumerate(batch))
    documents = [document for document, own in zip(batch, held, strict=True) if own == held_out]
    return batch if len(documents) == len(batch) else Batch.of(documents)
