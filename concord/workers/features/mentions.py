"""Mention columns: features of a token from the other mentions of its word in the document, without labels.

After Chieu & Ng (2003) §3 ("global features") and Ratinov & Roth (2009) §5.1 ("context aggregation"). Mentions of a
word are its occurrences in the same document, in any case. Each document is processed by itself, so the other documents
of a shard never change an answer. All columns take time near linear in the number of tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Mask
from concord.schemas.document import TOKENS, Batch, Column

NO_VALUE = ""
"""Value of a token that is not capitalised, or whose word has no mention of the kind looked for."""
LEFT_EDGE, RIGHT_EDGE = "<s>", "</s>"
MOST_WORDS, MOST_PLACE = 4, 2
"""Longer sequences, and places further into one, count as these."""
SHORTEST_ACRONYM, LONGEST_ACRONYM = 2, 6

LOWER_LETTER, UPPER_LETTER, CAPITALISED, IN_LOWER_CASE, OPENS_WITH_LETTER = 1, 2, 4, 8, 16
INITIAL_BITS, ACRONYM_BITS = 5, 10
"""Traits of words, and the bits from which on numbers stand, see `_traits_of`."""
WORDS_KEPT, LONGEST_KEPT = 1 << 16, 64
"""Words whose traits are kept from document to document, and characters of the longest one: 30 MB at most."""

MentionPlaces = NDArray[np.int64]


class Mentions:
    """The N tokens of a batch, grouped by document and word; each array is computed when first asked for."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._words = batch.columns[TOKENS]

    @cached_property
    def _traits(self) -> MentionPlaces:
        """(N,) the traits of each token's word, see `_traits_of`."""
        return np.fromiter(map(traits_of, self._words.values), np.int64, len(self._words.values))[self._words.codes]

    def have(self, trait: int) -> Mask:
        """(N,) whether each token's word has a trait."""
        flags: Mask = (self._traits & trait) > 0
        return flags

    @cached_property
    def sentence(self) -> MentionPlaces:
        """(N,) the sentence of each token."""
        opens = np.zeros(self._batch.token_count, np.int64)
        opens[self._batch.sentence_starts] = 1
        return np.cumsum(opens) - 1

    @cached_property
    def opens(self) -> Mask:
        """(N,) whether the token is the first of its sentence."""
        return np.diff(self.sentence, prepend=-1) > 0

    @cached_property
    def in_capitals(self) -> Mask:
        """(N,) whether the token's sentence has letters, and none in lower case: headlines, tables."""
        lower = np.bincount(self.sentence, self.have(LOWER_LETTER), len(self._batch.sentence_starts))
        cased = np.bincount(self.sentence, self.have(UPPER_LETTER), len(self._batch.sentence_starts))
        flags: Mask = ((lower == 0) & (cased > 0))[self.sentence]
        return flags

    @cached_property
    def capitalised(self) -> Mask:
        """(N,) whether the word starts with a capital."""
        return self.have(CAPITALISED)

    @cached_property
    def folded(self) -> Column:
        """The words in lower case."""
        values = Column.encode([w.lower() for w in self._words.values])
        return Column(values.codes[self._words.codes], values.values)

    @cached_property
    def document(self) -> MentionPlaces:
        """(N,) the document of each token."""
        return np.repeat(np.arange(len(self._batch)), np.diff(self._batch.doc_starts))

    @cached_property
    def word(self) -> MentionPlaces:
        """(N,) one number for all mentions of a word in a document, from 0."""
        keys = self.document * max(1, len(self.folded.values)) + self.folded.codes
        numbers: MentionPlaces = np.unique(keys, return_inverse=True)[1].astype(np.int64)
        return numbers

    @cached_property
    def _order(self) -> MentionPlaces:
        """(N,) tokens by word, then by place."""
        return np.argsort(self.word, kind="stable")

    @cached_property
    def first(self) -> MentionPlaces:
        """(N,) the first mention of each token's word."""
        order, words = self._order, self.word[self._order]
        first: MentionPlaces = order[np.searchsorted(words, self.word)]
        return first

    def neighbour(self, step: int) -> MentionPlaces:
        """(N,) the mention before (−1) or after (1) each token, −1 without one."""
        order, found = self._order, np.full(len(self.word), -1, np.int64)
        same = self.word[order[1:]] == self.word[order[:-1]]
        earlier, later = order[:-1][same], order[1:][same]
        source, target = (earlier, later) if step > 0 else (later, earlier)
        found[source] = target
        return found

    def others(self, flags: Mask) -> Mask:
        """(N,) whether another mention of the token's word has the flag."""
        counts = np.bincount(self.word, flags, int(self.word.max(initial=-1)) + 1)
        return counts[self.word] - flags > 0

    def beside(self, mention: MentionPlaces, step: int) -> Column:
        """The folded word left (−1) or right (1) of a mention of each capitalised token, `NO_VALUE` without one."""
        edge = LEFT_EDGE if step < 0 else RIGHT_EDGE
        values = [NO_VALUE, edge, *self.folded.values]
        place = np.clip(mention + step, 0, max(0, len(self.word) - 1))
        inside = (mention + step == place) & (self.sentence[place] == self.sentence[mention])
        codes = np.where(inside, self.folded.codes[place] + 2, 1)
        return Column(np.where(self.capitalised & (mention >= 0), codes, 0).astype(np.int32), values)

    @cached_property
    def sequences(self) -> tuple[MentionPlaces, MentionPlaces]:
        """(N,) where the token's run of capitalised words starts and ends (exclusive): an empty run where it has none.

        A run lies in one sentence, and not in one that is all capitals.
        """
        inside = self.capitalised & ~self.in_capitals
        here = np.arange(len(inside))
        joined = inside & np.append(False, inside[:-1]) & ~self.opens
        start = np.maximum.accumulate(np.where(joined, 0, here))
        follows = np.append(joined[1:], False)
        end = np.minimum.accumulate(np.where(follows, len(inside), here + 1)[::-1])[::-1]
        return np.where(inside, start, here), np.where(inside, end, here)

    @cached_property
    def longest_elsewhere(self) -> MentionPlaces:
        """(N,) other mention of the token's word that is in the longest capitalised run, of at least two words.

        The first of equals; −1 without one.
        """
        start, end = self.sequences
        length = np.where(end - start > 1, end - start, 0)
        order = np.lexsort((np.arange(len(length)), -length, self.word))
        words = self.word[order]
        top = np.searchsorted(words, self.word)
        second = np.minimum(top + 1, len(order) - 1)
        mine = order[top] == np.arange(len(length))
        best = order[np.where(mine, second, top)]
        return np.where(
            (self.word[best] == self.word) & (length[best] > 0) & (best != np.arange(len(length))), best, -1
        )

    @cached_property
    def acronyms(self) -> tuple[Mask, Mask]:
        """Two masks (N,): acronyms, which the initials of a capitalised run of the document spell, and the tokens of
        such runs."""
        code, initials = self._traits >> ACRONYM_BITS, self._traits >> INITIAL_BITS & 31
        scope = self.document * 27**LONGEST_ACRONYM
        wanted = np.unique((scope + code)[code > 0])
        found, member = [np.zeros(0, np.int64)], np.zeros(len(code), np.bool_)
        end = self.sequences[1]
        here, read = np.flatnonzero((end - np.arange(len(code)) >= SHORTEST_ACRONYM) & (len(wanted) > 0)), np.int64(0)
        for size in range(1, LONGEST_ACRONYM + 1):
            letter = initials[np.minimum(here + size, len(code)) - 1]
            inside = (here + size <= end[here]) & (letter > 0)
            here, read = here[inside], (read * 27 + letter)[inside]
            if size >= SHORTEST_ACRONYM:
                names = scope[here] + read
                fits = np.isin(names, wanted)
                found.append(names[fits])
                for step in range(size):
                    member[here[fits] + step] = True
        return (code > 0) & np.isin(scope + code, np.concatenate(found)), member


def traits_of(word: str) -> int:
    """`_traits_of`, which is kept for words of ordinary length."""
    return _kept_traits(word) if len(word) <= LONGEST_KEPT else _traits_of(word)


def _traits_of(word: str) -> int:
    """Traits of a word as bits.

    These are `LOWER_LETTER` to `OPENS_WITH_LETTER`; from `INITIAL_BITS` on its first letter as 1 to 26, 0 where it is
    none of A to Z; and from `ACRONYM_BITS` on its letters as digits 1 to 26 in base 27, 0 where it is no acronym.
    """
    traits = (word != word.upper()) * LOWER_LETTER | (word != word.lower()) * UPPER_LETTER
    traits |= word[:1].isupper() * CAPITALISED | word.islower() * IN_LOWER_CASE | word[:1].isalpha() * OPENS_WITH_LETTER
    initial = ord(word[0]) - 64 if "A" <= word[:1] <= "Z" else 0
    return traits | initial << INITIAL_BITS | _acronym(word) << ACRONYM_BITS


_kept_traits = lru_cache(maxsize=WORDS_KEPT)(_traits_of)


def _acronym(word: str) -> int:
    """An acronym as a number, its letters as digits 1 to 26 in base 27; 0 for any other word."""
    if not (SHORTEST_ACRONYM <= len(word) <= LONGEST_ACRONYM and word.isascii() and word.isalpha() and word.isupper()):
        return 0
    code = 0
    for letter in word:
        code = code * 27 + ord(letter) - 64
    return code


def mention_case(mentions: Mentions) -> Column:
    """Capitalisation of each token and of the other mentions of its word.

    A value joins the token's sentence (``capitals``; ``opens`` for its first token; ``inside``), whether the token is
    capitalised, whether another mention is in lower case, and whether another one is capitalised inside a sentence that
    is not all capitals.
    """
    m = mentions
    where = np.where(m.in_capitals, 0, np.where(m.opens, 1, 2))
    lower = m.others(m.have(IN_LOWER_CASE))
    inside = m.others(m.capitalised & ~m.opens & ~m.in_capitals)
    values = [
        f"{name}.{'Xx'[small]}{'.lower' * low}{'.capitalised' * high}"
        for name in ("capitals", "opens", "inside")
        for small in (0, 1)
        for low in (0, 1)
        for high in (0, 1)
    ]
    code = ((where * 2 + ~m.capitalised) * 2 + lower) * 2 + inside
    letters = m.have(OPENS_WITH_LETTER)
    return Column(np.where(letters, code + 1, 0).astype(np.int32), [NO_VALUE, *values])


def mention_sequence(mentions: Mentions) -> Column:
    """The longest capitalised sequence that another mention is part of: its length, and the place in it."""
    start, end = mentions.sequences
    best = mentions.longest_elsewhere
    length = np.minimum((end - start)[best], MOST_WORDS)
    place = np.minimum(best - start[best], MOST_PLACE)
    values = [f"{n}.{p}" for n in range(MOST_WORDS + 1) for p in range(MOST_PLACE + 1)]
    code = np.where(mentions.capitalised & (best >= 0), length * (MOST_PLACE + 1) + place + 1, 0)
    return Column(code.astype(np.int32), [NO_VALUE, *values])


def mention_first(mentions: Mentions) -> Column:
    """Is a capitalised token the first mention of its word, or a later one?"""
    code = np.where(mentions.first == np.arange(len(mentions.first)), 1, 2)
    return Column(np.where(mentions.capitalised, code, 0).astype(np.int32), (NO_VALUE, "first", "later"))


def mention_acronym(mentions: Mentions) -> Column:
    """``acronym`` for letters that initials of a capitalised sequence spell, ``spelled`` for the words of that one."""
    acronym, member = mentions.acronyms
    return Column(np.where(acronym, 1, np.where(member, 2, 0)).astype(np.int32), (NO_VALUE, "acronym", "spelled"))


def _later_first(mentions: Mentions) -> MentionPlaces:
    """(N,) the first mention, −1 for the first mention itself."""
    return np.where(mentions.first == np.arange(len(mentions.first)), -1, mentions.first)


MENTION_COLUMNS: dict[str, Callable[[Mentions], Column]] = {
    "mention-case": mention_case,
    "mention-sequence": mention_sequence,
    "mention-first": mention_first,
    "mention-acronym": mention_acronym,
    "first-left": lambda m: m.beside(_later_first(m), -1),
    "first-right": lambda m: m.beside(_later_first(m), 1),
    "previous-left": lambda m: m.beside(m.neighbour(-1), -1),
    "previous-right": lambda m: m.beside(m.neighbour(-1), 1),
    "next-left": lambda m: m.beside(m.neighbour(1), -1),
    "next-right": lambda m: m.beside(m.neighbour(1), 1),
}
"""Each column by its name: of ``first``, ``previous`` and ``next`` mention, the words ``left`` and ``right`` of it."""


def mention_columns(batch: Batch, names: Sequence[str]) -> dict[str, Column]:
    """Some of `MENTION_COLUMNS`; their shared parts are computed once."""
    mentions = Mentions(batch)
    return {name: MENTION_COLUMNS[name](mentions) for name in names}
