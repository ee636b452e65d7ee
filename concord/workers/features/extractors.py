"""Extractors: functions from a word to the values of its features.

An extractor works in two steps: it makes one text of the word, then takes values from that text (the whole text, its
substrings, prefixes or suffixes). The steps are separate so that the second can run in a compiled kernel.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

SEPARATOR = "\x1f"
"""Separator of the values of a conjunction; never part of a value, see `clean`."""
LONGEST_FRAMED = 40
"""Number of characters of a word from which substrings are taken; longer tokens are hardly words."""

_UNSAFE = re.compile("[\x00\x1f\ud800-\udfff]")


class Pieces(IntEnum):
    """Parts of an extractor's text that are its values."""

    WHOLE = 0
    SUBSTRINGS = 1
    PREFIXES = 2
    SUFFIXES = 3


@dataclass(frozen=True)
class Extractor:
    """Values of a word: the ``pieces`` of ``text(word)`` that have ``shortest`` to ``longest`` characters.

    The lengths do not matter to `Pieces.WHOLE`, which gives exactly one value.
    """

    text: Callable[[str], str]
    pieces: Pieces = Pieces.WHOLE
    shortest: int = 1
    longest: int = 1

    def values(self, word: str) -> tuple[str, ...]:
        """The distinct values of a clean word."""
        text = self.text(word)
        if self.pieces is Pieces.WHOLE:
            return (text,)
        lengths = range(self.shortest, min(self.longest, len(text)) + 1)
        if self.pieces is Pieces.PREFIXES:
            return tuple(text[:n] for n in lengths)
        if self.pieces is Pieces.SUFFIXES:
            return tuple(text[-n:] for n in lengths)
        return tuple({text[i : i + n]: None for n in lengths for i in range(len(text) - n + 1)})


def clean(word: str) -> str:
    """The word as features see it: NUL (it ends a C string), the separator and lone surrogates replaced."""
    return word if word.isprintable() else _UNSAFE.sub("\ufffd", word)


def same(word: str) -> str:
    """The word itself."""
    return word


def framed(word: str) -> str:
    """The word between markers of its ends, cut to `LONGEST_FRAMED` characters."""
    return f"<{word[:LONGEST_FRAMED]}>"


class _Images(dict[int, str]):
    """What stands for each character that was met, for `str.translate`."""

    def __init__(self, image: Callable[[str], str]) -> None:
        self._image = image

    def __missing__(self, code: int) -> str:
        self[code] = self._image(chr(code))
        return self[code]


_CLASS_OF = _Images(lambda c: "x" if c.islower() else "X" if c.isupper() else "d" if c.isdigit() else c)
_ZERO_FOR = _Images(lambda c: "0" if c.isdigit() else c)


def _classes(word: str) -> str:
    """One character class a character: X upper, x lower, d digit, others as they are."""
    return word.translate(_CLASS_OF)


def shape(word: str) -> str:
    """Character classes; of more than four, the two at each end and the set of those between."""
    classes = _classes(word)
    if len(classes) <= 4:
        return classes
    return classes[:2] + "".join(sorted(set(classes[2:-2]))) + classes[-2:]


def pattern(word: str) -> str:
    """Runs of a character class as one: ``Xx`` for a capitalised word, ``d-d`` for a score."""
    last, kept = "", []
    for c in _classes(word):
        if c != last:
            kept.append(c)
            last = c
    return "".join(kept[:LONGEST_FRAMED])


def digits(word: str) -> str:
    """Lower case with every digit as 0: years, pages and sums fall together by their length."""
    return word.lower().translate(_ZERO_FOR)


def kind(word: str) -> str:
    """A handful of classes: capitalised, upper, lower, initial, number, mixed, mark."""
    if not any(c.isalnum() for c in word):
        return word if len(word) == 1 else "mark"
    if not any(c.isalpha() for c in word):
        return f"number{min(sum(c.isdigit() for c in word), 5)}"
    if word.isupper():
        return "initial" if len(word) <= 2 else "upper"
    if word.islower():
        return "lower"
    return "capitalised" if word[0].isupper() and word[1:].islower() else "mixed"


EXTRACTORS: dict[str, Extractor] = {
    "same": Extractor(same),
    "lower": Extractor(str.lower),
    "shape": Extractor(shape),
    "pattern": Extractor(pattern),
    "digits": Extractor(digits),
    "kind": Extractor(kind),
    "ngrams": Extractor(framed, Pieces.SUBSTRINGS, 2, 6),
    "all-ngrams": Extractor(framed, Pieces.SUBSTRINGS, 2, LONGEST_FRAMED + 2),
    "prefixes": Extractor(same, Pieces.PREFIXES, 1, 4),
    "suffixes": Extractor(same, Pieces.SUFFIXES, 1, 4),
}
