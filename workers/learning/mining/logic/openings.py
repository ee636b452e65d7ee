"""Where runs open, as samples with Boolean attributes: what mining by logic sees (Fersini et al. 2014 §3.1).

A sample is a token at which a run opens, and its class is the run's type. The tokens inside a run are left out: they
have the label of the token before, and clauses that cover most of them would say that alone. An attribute is a
`Literal`; it speaks of the runs beside, the document's first and last run, the runs seen earlier, and the punctuation
at the run's ends and beside them.

Equal samples are counted once, as one row of codes with its number. Documents are dealt to two parts by their ids: one
is learned from, the other is held out.
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
    """What a literal speaks of, seen from the run that opens."""

    BEFORE = "before"
    """The run before in the sentence."""
    AFTER = "after"
    """The run after in the sentence."""
    FIRST = "first"
    """The document's first run, where that is another one, or the only one."""
    LAST = "last"
    """The document's last run, where that is another one, or the only one."""
    BEGINS = "begins"
    """This is the document's first run."""
    ENDS = "ends"
    """This is the document's last run."""
    MARK_BEFORE = "mark before"
    """The last token of the run before in the sentence."""
    MARK_FIRST = "mark first"
    """The run's first token, where a run is before it in the sentence."""
    MARK_LAST = "mark last"
    """The run's last token, where a run is after it in the sentence."""
    MARK_AFTER = "mark after"
    """The first token of the run after in the sentence."""
    EARLIER = "earlier"
    """Some run before in the document."""


MARKS = (Place.MARK_BEFORE, Place.MARK_FIRST, Place.MARK_LAST, Place.MARK_AFTER)
BESIDE = (Place.BEFORE, Place.AFTER)
COLUMNS = tuple(place for place in Place if place is not Place.EARLIER)
"""What has one column of the codes each, after that of the run's own type; what was seen earlier follows in bits."""

MARK_COLUMNS = [1 + COLUMNS.index(place) for place in MARKS]
FIRST_BIT = 1 + len(COLUMNS)
NOWHERE, UNSEEN = -1, -2
"""The codes of a run or token that the sentence does not have, and of a mark that no sample has."""


class LiteralSide(StrEnum):
    """What of a document a literal looks at."""

    OPENING = "opening"
    """The border where the run opens."""
    CLOSING = "closing"
    """The border where it ends."""
    DOCUMENT = "document"
    """The document's first and last run."""
    EARLIER = "earlier"
    """All runs before."""


SIDES = {
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
    """One Boolean attribute: what is at a place is ``value`` (a type, a mark; "": anything at all), or is not.

    Of runs beside, "" means that there is one. What is not at a place is something else that is there: a run after
    which none comes is not followed by another type.
    """

    place: Place
    value: str = ""
    holds: bool = True


class Openings(NamedTuple):
    """R samples: ``names`` (K,) of types, the last may be what is outside all spans, ``marks``, and codes (R, C).

    Column 0 is the run's own type; then come `COLUMNS`: types, 0 or 1, or 0 for a word and 1 + i for mark i.
    """

    names: tuple[str, ...]
    marks: tuple[str, ...]
    codes: Ids

    def truth(self, literal: Literal) -> Mask:
        """(R,) where a literal holds."""
        place, value, holds = literal
        if place is Place.EARLIER:
            byte, bit = divmod(self.names.index(value), 8)
            seen: Mask = (self.codes[:, FIRST_BIT + byte] >> (7 - bit)) & 1 == int(holds)
            return seen
        own = self.codes[:, 1 + COLUMNS.index(place)]
        there: Mask = own != NOWHERE
        if not value:
            anything: Mask = there if place in BESIDE else own > 0
            return anything if holds else ~anything & (there | (place in BESIDE))
        found: Mask = own == self._code(place, value)
        return found if holds else ~found & there

    def _code(self, place: Place, value: str) -> int:
        if place not in MARKS:
            return self.names.index(value)
        return 1 + self.marks.index(value) if value in self.marks else UNSEEN

    def literals(self) -> list[Literal]:
        """Every literal that these samples can have, the simple ones first."""
        found = [Literal(Place.BEGINS), Literal(Place.ENDS), Literal(Place.BEFORE), Literal(Place.AFTER)]
        found += [Literal(place) for place in MARKS]
        for place in Place:
            values = () if place in (Place.BEGINS, Place.ENDS) else self.marks if place in MARKS else self.names
            found += [Literal(place, value) for value in values]
        return found + [literal._replace(holds=False) for literal in found]


def openings_of(runs: Runs, types: Ints, marks: Marks, names: Sequence[str]) -> Openings:
    """The samples of documents whose runs have these types (R,)."""
    document, at = runs.documents, np.arange(len(types))
    first, last = runs.starts[document], runs.starts[document + 1] - 1
    # What is before run r is before its border, and what is after it after the border of run r + 1.
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
    """(R, kinds) is there a run of the type before in the document?"""
    seen = np.zeros((len(types) + 1, kinds), np.int64)
    seen[np.arange(len(types)) + 1, types] = 1
    seen = np.cumsum(seen, axis=0)
    found: Mask = seen[:-1] > seen[runs.starts[runs.documents]]
    return found


class Marks(NamedTuple):
    """Punctuation of a batch without its case, sorted, and the codes (N,) of tokens: 0 for a word, 1 + i for mark i."""

    names: tuple[str, ...]
    codes: Ints

    @classmethod
    def of(cls, site: Site) -> Marks:
        """Those of a site."""
        words = site.batch.columns[TOKENS]
        here = site.mask(TokenTest(pattern=PUNCTUATION))
        used, local = np.unique(words.codes[here], return_inverse=True)
        strings = [words.values[i].casefold() for i in used.tolist()]
        names = tuple(sorted(set(strings)))
        codes = np.zeros(len(here), np.int64)
        codes[here] = np.array([1 + names.index(mark) for mark in strings], np.int64)[local]
        return cls(names, codes)


def names_of(labels: LabelSet) -> tuple[str, ...]:
    """The classes: span types and, last, what is outside all spans, where labels can say that."""
    return (*labels.types, OUTSIDE) if OUTSIDE in labels.names else labels.types


def part_of(batch: Batch, share: float, *, held_out: bool, first: int | None = None) -> Batch:
    """The documents of a batch that are held out at such a share of all, or the others.

    Those from the place ``first`` in the batch on are, where that is given, and else those that their ids name.
    """
    held = (is_held_out(own.doc_id, share) if first is None else i >= first for i, own in enumerate(batch))
    chosen = [document for document, own in zip(batch, held, strict=True) if own == held_out]
    return batch if len(chosen) == len(batch) else Batch.of(chosen)
