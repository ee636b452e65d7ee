"""Names that users give, and messages about unknown ones, with the name that was probably meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

LONGEST_WORD = 80
"""Number of characters of an unknown word that are compared with known names."""
PLAIN_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
PLAIN_NAMES = "letters and digits, with . _ - between them"


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known name that ``word`` was probably meant to be; capitals do not count. None if no name is close."""
    lowered = {name.lower(): name for name in reversed(list(known))}
    close = difflib.get_close_matches(word[:LONGEST_WORD].lower(), list(lowered), n=1, cutoff=0.6)
    return lowered[close[0]] if close else None


def nearest(word: str, known: Iterable[str]) -> str:
    """End of a message about an unknown name: ``; did you mean 'x'?``, or without a close name the list of all."""
    names = list(known)
    meant = closest(word, names)
    return f"; there are {', '.join(names) or 'none'}" if meant is None else f"; did you mean {meant!r}?"


def unknown(what: str, word: str, known: Iterable[str]) -> str:
    """Message about an unknown name: ``no WHAT is called 'word'``, the name that was probably meant, and all names."""
    names = list(known)
    meant = closest(word, names)
    guess = "" if meant is None else f" did you mean {meant!r}?"
    return f"no {what} is called {word!r};{guess} there are {', '.join(names) or 'none'}"
