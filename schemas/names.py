"""Messages about unknown names, with the name that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LONGEST_WORD = 80
"""Number of characters of a word that are compared with known names."""


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known name that ``word`` was probably meant to be, whatever its capitals."""
    lowered = {name.lower(): name for name in reversed(list(known))}
    close = difflib.get_close_matches(word[:LONGEST_WORD].lower(), list(lowered), n=1, cutoff=0.6)
    return lowered[close[0]] if close else None


def nearest(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` or the list of what there is: where that list is long, or is shown elsewhere."""
    names = list(known)
    meant = closest(word, names)
    return f"; there are {', '.join(names) or 'none'}" if meant is None else f"; did you mean {meant!r}?"


def unknown(what: str, word: str, known: Iterable[str]) -> str:
    """``no WHAT is called 'word'``, the name that was probably meant, and all that there are."""
    names = list(known)
    meant = closest(word, names)
    guess = "" if meant is None else f" did you mean {meant!r}?"
    return f"no {what} is called {word!r};{guess} there are {', '.join(names) or 'none'}"
