"""Patterns for whole tokens: Python's notation and meaning, with the running time of RE2.

Python's own matcher may take exponential time, whatever the limits of a run; RE2, which pyarrow contains, takes time
linear in the token. A pattern has to be valid for both. Notation that the two read differently is translated: ``\\d``,
``\\w`` and ``\\s`` are Unicode's as in Python, ``\\Z`` is the end, ``{,n}`` starts from 0. Look-around and
back-references have no linear-time matcher and are refused, and so is ``\\b``, which knows only ASCII in RE2.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from concord.workers.storage.lined_yaml import LONGEST_SHOWN

LAST_ASCII, LAST_CODE_POINT = 0x7F, 0x10FFFF

PIECE = re.compile(r"\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}|\\.|\[\^?\]?|\{,(?=\d+\})|.", re.DOTALL)
"""A piece of a pattern: an escape, the start of a class, a count from nothing, or a single character.

The start of a class includes a bracket that is its first member.
"""

SURROGATES = re.compile("[\ud800-\udfff]")

Characters = NDArray[np.str_]

CLASSES: dict[str, Callable[[Characters], NDArray[np.bool_]]] = {
    "d": np.strings.isdecimal,
    "w": lambda characters: np.strings.isalnum(characters) | (characters == "_"),
    "s": np.strings.isspace,
}
"""The members of Python's classes, by its own definition."""


class PatternError(ValueError):
    """A pattern that is no regular expression, or cannot be matched in linear time."""


class Pattern(NamedTuple):
    """A pattern for whole strings in RE2's notation.

    - ``ascii``: for strings of ASCII alone.
    - ``full``: for all strings.

    RE2 compiles a pattern whenever it is used, and Unicode's classes take it milliseconds.
    """

    ascii: str
    full: str


class Strings(NamedTuple):
    """Strings (V,) as `matches` takes them.

    - ``is_ascii`` (V,): mask of the strings of ASCII alone.
    - ``ascii``: these strings.
    - ``others``: the other strings.
    """

    is_ascii: NDArray[np.bool_]
    ascii: pa.LargeStringArray
    others: pa.LargeStringArray

    @classmethod
    def of(cls, strings: Sequence[str]) -> Strings:
        """The strings; a lone surrogate becomes U+FFFD."""
        is_ascii = np.fromiter(map(str.isascii, strings), np.bool_, len(strings))
        others = [SURROGATES.sub("\ufffd", s) for s in strings if not s.isascii()]
        plain = [s for s in strings if s.isascii()] if others else strings
        return cls(is_ascii, pa.array(plain, pa.large_string()), pa.array(others, pa.large_string()))


def translated(pattern: str, *, ignore_case: bool) -> Pattern:
    """The pattern for RE2. Raises `PatternError`, with the pattern in its message."""
    named = repr(pattern if len(pattern) <= LONGEST_SHOWN else pattern[:LONGEST_SHOWN] + "…")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # about sets that a later Python will read otherwise
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError, FutureWarning) as error:
        raise PatternError(f"pattern {named} is no regular expression: {error}") from None
    flags = "(?i)" if ignore_case else ""
    try:
        for_both = Pattern(*(rf"{flags}\A(?:{_for_re2(pattern, last)})\z" for last in (LAST_ASCII, LAST_CODE_POINT)))
        matches(for_both, Strings.of(["a", "é"]))
    except (ValueError, pa.ArrowInvalid) as error:
        raise PatternError(
            f"pattern {named} cannot be matched in linear time: {error} (look-around, back-references, \\b, possessive "
            "and very large repeats are not supported)"
        ) from None
    return for_both


def matches(pattern: Pattern, strings: Strings) -> NDArray[np.bool_]:
    """(V,) mask of the strings that the pattern matches."""
    held = np.zeros(len(strings.is_ascii), np.bool_)
    held[strings.is_ascii] = pc.match_substring_regex(strings.ascii, pattern.ascii)
    if len(strings.others):
        held[~strings.is_ascii] = pc.match_substring_regex(strings.others, pattern.full)
    return held


def _for_re2(pattern: str, last: int) -> str:
    """The pattern in RE2's notation, with classes of the code points up to ``last``."""
    parts: list[str] = []
    in_class = False
    for piece in PIECE.findall(pattern):
        if piece[0] == "\\":
            parts.append(_escape(piece, last, in_class=in_class))
        elif in_class:
            in_class = piece != "]"
            parts.append(piece.replace("[", r"\["))
        elif piece[0] == "[":
            in_class = True
            parts.append(piece.replace("]", r"\]"))
        else:
            parts.append("{0," if piece == "{," else piece)
    return "".join(parts)


def _escape(piece: str, last: int, *, in_class: bool) -> str:
    letter = piece[1]
    if letter.lower() in CLASSES:
        members = _members(letter, last)
        return members if in_class else f"[{members}]"
    if letter in "xuU":
        return rf"\x{{{piece[2:]}}}"
    if letter == "b" and in_class:
        return r"\x08"
    if letter in "bB":
        raise ValueError(f"\\{letter} is ASCII's alone there")
    if letter == "Z":
        return r"\z"
    return piece if letter.isascii() else letter


@cache
def _members(letter: str, last: int) -> str:
    """The ranges of a class as RE2 writes them; for an upper-case letter those of all other characters."""
    characters = np.arange(last + 1, dtype=np.uint32).view("U1")
    inside = CLASSES[letter.lower()](characters) ^ letter.isupper()
    edges = np.flatnonzero(np.diff(inside, prepend=False, append=False))
    return "".join(rf"\x{{{first:x}}}-\x{{{end - 1:x}}}" for first, end in edges.reshape(-1, 2).tolist())
