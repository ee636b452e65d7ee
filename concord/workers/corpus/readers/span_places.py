"""Places of typed spans in their text: by offsets in some unit, by the words beside them, or by words alone.

A span whose words do not stand at its offsets stands where they are nearest to these. Words alone stand wherever the
text has them, from the start of a word to the end of one: words are what blanks and signs part, or the tokenizer, which
finds words in scripts without blanks. A Korean word may go on after them, for its particle is no part of a name.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

OffsetUnit = Literal["characters", "utf-16", "bytes"]
UNITS: tuple[OffsetUnit, ...] = ("characters", "utf-16", "bytes")

NO_PLACE = "have no place in the text"
BEYOND = "are not inside the text"
CUT_CHARACTER = "begin or end inside a character"
FROM_ZERO = "count from 0, the end being the first one after the span"
HANGUL = ("\uac00", "\ud7a3")
"""First and last syllable of Korean."""

Borders = Callable[[str], tuple[frozenset[int], frozenset[int]]]
"""Gives the characters of a text at which its tokens begin, and those before which they end."""


def no_borders(_: str) -> tuple[frozenset[int], frozenset[int]]:
    """No tokens: words are what blanks and signs part."""
    return frozenset(), frozenset()


class TextSpan(NamedTuple):
    """A typed span of a text as its source has it.

    - ``start``, ``end``: first character and the one after the last; None for words without a place.
    - ``words``: the words of the span, where the source repeats them.
    - ``score``: what its tagger gives for it.
    - ``line``: line of its own in a file.
    - ``parts``: number of pieces that the source has for it; what lies between them is in the span.
    - ``anywhere``: had the source its words only, and no place?
    - ``alignment``: how well its words were found in the text, as LangExtract says it (``match_fuzzy``).
    - ``moved``: had the source another place, at which its words do not stand?
    """

    start: int | None
    end: int | None
    type: str
    words: str | None = None
    score: float | None = None
    line: int | None = None
    parts: int = 1
    anywhere: bool = False
    alignment: str | None = None
    moved: bool = False


class LostSpan(NamedTuple):
    """A span that cannot be read or placed.

    - ``reason``: what such spans are, after "spans".
    - ``fault``: what is wrong with this one, and what to do.
    """

    reason: str
    fault: str


class PlacedSpans(NamedTuple):
    """Spans with their places in characters, those that have none, and the unit that all offsets would fit."""

    spans: list[TextSpan]
    lost: list[LostSpan]
    unit: OffsetUnit | None


def located(spans: Sequence[TextSpan], text: str, unit: OffsetUnit, borders: Borders = no_borders) -> PlacedSpans:
    """The places of spans, each span once.

    - ``unit``: of their starts and ends.
    """
    finder, places = _WordFinder(text, borders), _Offsets.of(text, unit)
    placed, lost = list[TextSpan](), list[LostSpan]()
    for span in spans:
        own = list(_own(span, text, finder, places))
        placed += own
        if not own:
            lost.append(_fault(span, text, places))
    other = None if _fit(spans, text, unit) else next((u for u in UNITS if _fit(spans, text, u)), None)
    once = {span._replace(words=None, anywhere=False, moved=False): span for span in reversed(placed)}
    return PlacedSpans([*reversed(once.values())], lost, other)


def beyond_of(span: TextSpan, count: int, unit: str) -> LostSpan | None:
    """What is told of a span that is not inside a text of ``count`` units; None for one that is."""
    if span.start is not None and span.end is not None and 0 <= span.start < span.end <= count:
        return None
    fault = f"span {span.start} to {span.end} ({span.type}) is not inside the text, which has {count} {unit}"
    return LostSpan(BEYOND, fault)


def _own(span: TextSpan, text: str, finder: _WordFinder, places: _Offsets) -> Iterator[TextSpan]:
    """The places of one span; none if it has none."""
    if span.start is None and span.end is None:
        for a, b in finder.places(span.words or ""):
            yield span._replace(start=a, end=b, anywhere=True)
        return
    ends = places.characters(span)
    if ends is not None and (span.words is None or _same(text[slice(*ends)], span.words)):
        start, end = _without_blanks(text, *ends)
        yield span._replace(start=start, end=end)
        return
    at = places.near(span.start) if span.start is not None else places.near(span.end or 0) - len(span.words or "")
    nearest = finder.nearest(span.words or "", at)
    if nearest is not None:
        yield span._replace(start=nearest[0], end=nearest[1], moved=True)


def _fault(span: TextSpan, text: str, places: _Offsets) -> LostSpan:
    ends = places.characters(span)
    if span.start is None and span.end is None:
        return LostSpan(NO_PLACE, f"the words {(span.words or '')[:40]!r} stand nowhere in the text")
    if span.words is not None and ends is not None:
        there = text[slice(*ends)][:40]
        return LostSpan(
            NO_PLACE, f"{places.unit} {span.start} to {span.end} are {there!r} and not {span.words[:40]!r}; {FROM_ZERO}"
        )
    beyond = beyond_of(span, places.size, places.unit)
    cut = LostSpan(CUT_CHARACTER, f"{places.unit} {span.start} to {span.end} cut a character; {FROM_ZERO}")
    return beyond or cut


def _without_blanks(text: str, start: int, end: int) -> tuple[int, int]:
    """A span without blanks at its ends; as it is where it has nothing else."""
    own = text[start:end]
    left, right = len(own) - len(own.lstrip()), len(own) - len(own.rstrip())
    return (start + left, end - right) if own.strip() else (start, end)


def _same(text: str, words: str) -> bool:
    return text.casefold().split() == words.casefold().split()


def _fit(spans: Sequence[TextSpan], text: str, unit: OffsetUnit) -> bool:
    """Do all spans with words and offsets have these words there, counted in a unit?"""
    places, checked = _Offsets.of(text, unit), [s for s in spans if s.words is not None and s.start is not None]
    ends = [places.characters(span) for span in checked]
    return bool(checked) and all(
        end is not None and _same(text[slice(*end)], span.words or "") for span, end in zip(checked, ends, strict=True)
    )


class _Offsets(NamedTuple):
    """Places of a text in a unit.

    - ``size``: its length.
    - ``starts``: the place of each character, and the end; None where these are characters.
    """

    unit: OffsetUnit
    size: int
    starts: Sequence[int] | None

    @classmethod
    def of(cls, text: str, unit: OffsetUnit) -> _Offsets:
        if unit == "characters" or text.isascii():
            return cls(unit, len(text), None)
        starts = [0]
        for character in text:
            width = 1 + (character > "\uffff") if unit == "utf-16" else len(character.encode())
            starts.append(starts[-1] + width)
        return cls(unit, starts[-1], starts)

    def near(self, place: int) -> int:
        """The character that a place is in."""
        return place if self.starts is None else bisect_right(self.starts, place) - 1

    def characters(self, span: TextSpan) -> tuple[int, int] | None:
        """Start and end in characters; None where they are not inside the text, or inside a character."""
        if span.start is None or span.end is None or not 0 <= span.start < span.end <= self.size:
            return None
        start, end = self.near(span.start), self.near(span.end)
        if self.starts is not None and (self.starts[start] != span.start or self.starts[end] != span.end):
            return None
        return start, end


class _WordFinder:
    """The places of words in a text; the text is cut into tokens when that is first needed."""

    def __init__(self, text: str, borders: Borders) -> None:
        self._text, self._borders = text, borders
        self._cut: tuple[frozenset[int], frozenset[int]] | None = None

    def places(self, words: str) -> Iterator[tuple[int, int]]:
        """All places of words that begin and end where words do."""
        last = 0
        for start, end in self._all(words):
            if start >= last and (not words[0].isalnum() or (self._begins(start) and self._ends(end))):
                last = end
                yield start, end

    def nearest(self, words: str, at: int) -> tuple[int, int] | None:
        """The place that begins nearest to a character, the first of equals; inside of longer words if need be."""
        places = list(self.places(words)) or list(self._all(words))
        return min(places, key=lambda place: abs(place[0] - at), default=None)

    def _all(self, words: str) -> Iterator[tuple[int, int]]:
        pattern = r"\s+".join(map(re.escape, words.split()))
        return (match.span(1) for match in re.finditer(f"(?=({pattern}))", self._text)) if pattern else iter(())

    def _begins(self, at: int) -> bool:
        return not _inside_word(self._text, at) or at in self._tokens()[0]

    def _ends(self, at: int) -> bool:
        if not _inside_word(self._text, at) or at in self._tokens()[1]:
            return True
        return all(HANGUL[0] <= character <= HANGUL[1] for character in self._text[at - 1 : at + 1])

    def _tokens(self) -> tuple[frozenset[int], frozenset[int]]:
        self._cut = self._cut or self._borders(self._text)
        return self._cut


def _inside_word(text: str, at: int) -> bool:
    """Is there a character of a word on both sides of a place?"""
    return 0 < at < len(text) and _of_word(text[at - 1]) and _of_word(text[at])


def _of_word(character: str) -> bool:
    return character.isalnum() or character == "_" or unicodedata.category(character).startswith("M")
