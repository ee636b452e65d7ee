"""Places in a text of words that a tokenizer has changed: in case or form, joined, or written out.

Text and words are folded (NFKC, case) and compared as two strings of characters without blanks. A word stands where its
characters stand, if these are half of it or more, or the whole of a word that is written out (``Street`` for ``St``). A
word of which nothing is left, such as ``and`` for ``&``, stands where the text has other signs than letters and digits
between the places of its neighbours.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from concord.schemas.errors import DocumentError


class FoldedText(NamedTuple):
    """Folded characters of a text without blanks, and the place of each in the text."""

    characters: str
    place: list[int]

    @classmethod
    def of(cls, text: str) -> FoldedText:
        """Of one text."""
        pairs = [(c, i) for i, original in enumerate(text) for c in folded(original) if not c.isspace()]
        return cls("".join(c for c, _ in pairs), [i for _, i in pairs])


def folded(text: str) -> str:
    """The text by compatibility and case, without combining marks."""
    return "".join(c for c in unicodedata.normalize("NFKD", text).casefold() if not unicodedata.combining(c))


def placed(text: str, words: Sequence[str], name: str) -> list[tuple[int, int]]:
    """Start and end of each word in the text, in order and without overlap.

    - ``name``: the tokenizer, for messages.

    Raises `DocumentError` for a word that has no place.
    """
    source = FoldedText.of(text)
    owner = [i for i, word in enumerate(words) for c in folded(word) if not c.isspace()]
    target = "".join(c for word in words for c in folded(word) if not c.isspace())
    found: list[list[int]] = [[] for _ in words]
    for a, b, size in SequenceMatcher(None, source.characters, target, autojunk=False).get_matching_blocks():
        for k in range(size):
            found[owner[b + k]].append(source.place[a + k])
    spans = [_span(text, word, places) for word, places in zip(words, found, strict=True)]
    return [span or _between(text, spans, i, words[i], name) for i, span in enumerate(spans)]


def _span(text: str, word: str, places: Sequence[int]) -> tuple[int, int] | None:
    """Start and end of the characters that a word shares with the text; None if these are too few."""
    if not places:
        return None
    start, end = places[0], places[-1] + 1
    whole = not text[start - 1 : start].isalnum() and not text[end : end + 1].isalnum()
    written_out = whole and text[start:end].isalnum() and folded(word)[:1] == folded(text[start])[:1]
    return (start, end) if 2 * len(places) >= len(folded(word)) or written_out else None


def _between(text: str, spans: Sequence[tuple[int, int] | None], i: int, word: str, name: str) -> tuple[int, int]:
    """Place of word i, which shares no character with the text, between its neighbours."""
    before = spans[i - 1] if i else (0, 0)
    after = spans[i + 1] if i + 1 < len(spans) else (len(text), len(text))
    if before is not None and after is not None:
        gap = text[before[1] : after[0]]
        if gap.strip() and not any(c.isalnum() for c in gap):
            start = before[1] + len(gap) - len(gap.lstrip())
            return start, start + len(gap.strip())
    raise DocumentError(
        f"{name} gave {word!r}, which stands nowhere in the text; let it return (word, start, end) for each word"
    )
