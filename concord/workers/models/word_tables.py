"""Word tables: cached scores of distinct words, for a feature function that looks at one word at a time.

Feature functions of packages such as usaddress describe a token by its own word, the word before, the word after, and
marks near the ends of the sentence. If that is all, token t of n has the scores

    own[word_t] + before[word_{t−1}] + after[word_{t+1}] + marks[min(t, 2), min(n − 1 − t, 2)]

(the first and last tokens lack one neighbour), and each distinct word has to go through the function only once, between
copies of a fixed word, `REFERENCE`. All sums are of multiples of one unit and small enough to be exact in any order
(`Scored`), so the tables give the same scores as the function's own features, bit for bit.

It cannot be proven from outside that a function has this form. Three checks guard against one that has not; each
compares all scores for equality:

1. At import, `departure` tries made-up sentences of the model's own words, with the punctuation, case and digits that
   feature functions ask for. Its outcome is saved in the model.
2. In use, one sentence in `CHECKED` goes through the function as well. It is chosen by a hash of its words, so the
   choice does not depend on where the document stands. The first difference ends the shard with an error. A function
   that departs in a share p of sentences gets through n sentences with probability (1 − p / CHECKED)ⁿ.
3. A sentence is never scored by tables if the function raises at one of its words alone, or gives it too many features
   to add up exactly.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from concord.schemas.arrays import Floats, Ints, Mask
from concord.schemas.errors import DocumentError
from concord.workers.compiling.kernel import kernel_in_place

REFERENCE = "a"
CHECKED = 512
AT_ONCE = 64
"""Number of new words that go through the function together, in one sentence."""
MOST_TABLE_BYTES = 2**28
"""Size of the tables, in bytes, at which they are emptied, so that memory stays flat over any number of words."""
PROBES, LONGEST_PROBE = 400, 8
"""Number of made-up sentences of an import, and largest number of words of one."""
ENDINGS = ("", "", ",", ".", ";", ")", "s", "1")
BEGINNINGS = ("", "", "", "(", "#", "1", "Mc")


class Scored(NamedTuple):
    """Scores of a sentence of n words by the feature function.

    - ``sums`` (n, K): summed weights in nats.
    - ``exact`` (n,): whether the sums are exact in any order of adding. They are if all terms are multiples of a unit
      and their absolute values add up to at most 2⁵⁰ units: four such sums stay below 2⁵³, up to which float64 holds
      every integer.
    """

    sums: Floats
    exact: Mask


ScoreFunction = Callable[[Sequence[str]], Scored]
"""Scores a sentence. Raises `DocumentError` where it cannot."""


class WordTables:
    """Tables (V, 3, K) of the words seen so far: scores before, own and after.

    Raises `DocumentError` where the function cannot score sentences of `REFERENCE`.
    """

    def __init__(self, function: ScoreFunction, width: int) -> None:
        self._function = function
        self._width = width
        self._marks = _marks(function, width)
        self._begin()

    def _begin(self) -> None:
        self._ids: dict[str, int] = {}
        self._table = np.zeros((1024, 3, self._width))
        self._usable = np.zeros(1024, np.bool_)
        self._hash = np.zeros(1024, np.uint64)

    def ids(self, words: Sequence[str]) -> Ints:
        """(V,) rows of the words in the tables; words that are new go through the function first."""
        if self._table.nbytes > MOST_TABLE_BYTES:
            self._begin()
        new = [word for word in dict.fromkeys(words) if word not in self._ids]
        self._reserve(len(self._ids) + len(new))
        for first in range(0, len(new), AT_ONCE):
            self._learn(new[first : first + AT_ONCE])
        return np.array([self._ids[word] for word in words], np.int64)

    def fill(self, ids: Ints, bounds: Ints, unary: Floats, column: Ints) -> tuple[Mask, Mask]:
        """Writes the scores of S sentences into ``unary``.

        - ``ids`` (N,): rows of the words in the tables.
        - ``bounds`` (S + 1,): sentence s is bounds[s] up to bounds[s + 1].
        - ``unary`` (N, L), ``column`` (K,): scores of label k go to unary[:, column[k]].

        Returns two masks (S,): sentences that tables cannot score, and sentences that the function has to check.
        """
        add_up(ids, bounds, self._table, self._marks, column, unary)
        starts = bounds[:-1]
        unknown = ~np.logical_and.reduceat(self._usable[ids], starts)
        checked = np.add.reduceat(self._hash[ids], starts) % np.uint64(CHECKED) == 0
        return unknown, checked & ~unknown

    def _reserve(self, count: int) -> None:
        if count > len(self._table):
            size = max(count, 2 * len(self._table))
            self._table, self._usable, self._hash = (
                np.concatenate([old, np.zeros((size - len(old), *old.shape[1:]), old.dtype)])
                for old in (self._table, self._usable, self._hash)
            )

    def _learn(self, words: Sequence[str]) -> None:
        """Scores each word between copies of `REFERENCE` and keeps the result; words that the function cannot take are
        marked as not usable."""
        try:
            sums, exact = self._function([REFERENCE, REFERENCE, *(w for word in words for w in _between(word))])
        except DocumentError:
            if len(words) > 1:
                self._learn(words[: len(words) // 2])
                self._learn(words[len(words) // 2 :])
            else:
                self._keep(words, np.zeros((1, 3, self._width)), np.zeros(1, np.bool_))
            return
        excess = sums - _marks_of(len(sums), self._marks)
        at = 2 + 3 * np.arange(len(words))
        around = at[:, None] + np.array([1, 0, -1])
        self._keep(words, excess[around], exact[around].all(axis=1))

    def _keep(self, words: Sequence[str], rows: Floats, usable: Mask) -> None:
        """Stores rows (V, 3, K): scores that a word gives to the token after it, to itself, and to the token before."""
        first = len(self._ids)
        self._ids.update(zip(words, range(first, first + len(words)), strict=True))
        self._table[first : first + len(words)] = rows
        self._usable[first : first + len(words)] = usable
        self._hash[first : first + len(words)] = [_hashed(word) for word in words]


def _between(word: str) -> tuple[str, str, str]:
    return word, REFERENCE, REFERENCE


def _hashed(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _marks(function: ScoreFunction, width: int) -> Floats:
    """(3, 3, K) scores of a token by its distance to both ends: those in sentences of `REFERENCE` alone."""
    marks = np.zeros((3, 3, width))
    for size in range(1, 6):
        sums, exact = function([REFERENCE] * size)
        if not exact.all():
            raise DocumentError(f"more features of {REFERENCE!r} than add up exactly")
        for t in range(size):
            marks[min(t, 2), min(size - 1 - t, 2)] = sums[t]
    return marks


def _marks_of(size: int, marks: Floats) -> Floats:
    """(size, K) the marks of each token of a sentence."""
    t = np.arange(size)
    found: Floats = marks[np.minimum(t, 2), np.minimum(size - 1 - t, 2)]
    return found


@kernel_in_place
def add_up(ids: Ints, bounds: Ints, table: Floats, marks: Floats, column: Ints, unary: Floats) -> None:
    """See `WordTables.fill`."""
    width = len(column)
    for s in range(len(bounds) - 1):
        first, last = bounds[s], bounds[s + 1]
        for t in range(first, last):
            i, j, own = min(t - first, 2), min(last - 1 - t, 2), ids[t]
            for k in range(width):
                unary[t, column[k]] = marks[i, j, k] + table[own, 1, k]
            if t > first:
                for k in range(width):
                    unary[t, column[k]] += table[ids[t - 1], 0, k]
            if t + 1 < last:
                for k in range(width):
                    unary[t, column[k]] += table[ids[t + 1], 2, k]


def departure(function: ScoreFunction, width: int, attributes: Sequence[str]) -> str:
    """Reason why word tables cannot replace a feature function; empty if made-up sentences show none.

    ``attributes`` are the model's; the text behind the last colon of each is taken as a word that it knows.
    """
    try:
        tables = WordTables(function, width)
    except DocumentError as error:
        return f"it cannot be tried: {error.reason}"
    tried = 0
    for words in _probes(attributes):
        try:
            wanted = function(words).sums
        except DocumentError:
            continue
        scores = np.zeros((len(words), width))
        bounds = np.array([0, len(words)])
        unknown, _ = tables.fill(tables.ids(words), bounds, scores, np.arange(width))
        if not unknown[0] and (scores != wanted).any():
            return f"features of a word depend on more than its neighbours, as in {' '.join(words)!r}"
        tried += not unknown[0]
    return "" if tried > PROBES // 4 else f"it took only {tried} of {PROBES} made-up sentences"


def _probes(attributes: Sequence[str]) -> list[list[str]]:
    """Made-up sentences, the same for the same attributes."""
    rng = np.random.default_rng(0)
    known = sorted({name.rpartition(":")[2] for name in attributes} - {""}) or [REFERENCE]
    words = []
    for i in rng.integers(len(known), size=PROBES).tolist():
        word = BEGINNINGS[rng.integers(len(BEGINNINGS))] + known[i] + ENDINGS[rng.integers(len(ENDINGS))]
        words.append((word, word.upper(), word.title())[rng.integers(3)])
    sizes = rng.integers(1, LONGEST_PROBE + 1, size=PROBES).tolist()
    return [[words[i] for i in rng.integers(len(words), size=size).tolist()] for size in sizes]
