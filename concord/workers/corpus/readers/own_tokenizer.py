"""A user's own tokenizer: a Python function from a text to its words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from io import StringIO
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Ids, Ints
from concord.schemas.document import Column
from concord.schemas.errors import USERS_FUNCTION_RAISES, DocumentError, error_line
from concord.workers.compiling.interpreted import runnable
from concord.workers.compiling.kernel import kernel_in_place
from concord.workers.corpus.readers.placed_words import placed
from concord.workers.corpus.tokenizers.sentences import Tokenized

CodePoints = NDArray[np.uint32]


Word = tuple[str, tuple[int, int] | None]
"""A word, and where it starts and ends in the text if the function says so."""


class OwnTokenizer(NamedTuple):
    """Cuts each text into the words that ``function`` returns, one sentence a text; ``name`` is MODULE:FUNCTION."""

    name: str
    function: Callable[[str], Any]

    def __call__(self, texts: Sequence[str]) -> Tokenized:
        """Tokens of all texts, in order; each word is found at its first occurrence after the word before.

        Words that the function has changed are placed by what is left of them, see `placed_words`, unless it gives
        (word, start, end) for each. Raises `DocumentError` where the function fails on a text, returns no words, or
        words that have no place.
        """
        cuts = [self._cut(text) for text in texts]
        words = [word for cut in cuts for word, _ in cut]
        doc_starts, length = np.cumsum([0, *map(len, cuts)]).astype(np.int64), _lengths(words)
        start = np.zeros(len(words), np.int32)
        given = [place for cut in cuts for _, place in cut if place is not None]
        lost = 0
        if not given:
            sizes = _lengths(texts), _characters(words)
            lost = runnable(find_words)(_characters(texts), *sizes, length, doc_starts, start)
        if lost < 0 and not given:
            return Tokenized(Column.encode(words), doc_starts, doc_starts[:-1], start, start + length)
        places = [place for text, cut in zip(texts, cuts, strict=True) for place in self._places(text, cut)]
        bounds = np.array(places, np.int32).reshape(-1, 2)
        return Tokenized(Column.encode(words), doc_starts, doc_starts[:-1], bounds[:, 0], bounds[:, 1])

    def _places(self, text: str, cut: Sequence[Word]) -> list[tuple[int, int]]:
        """Start and end of each word of a text. Raises `DocumentError`."""
        places = [place for _, place in cut if place is not None]
        if len(places) == len(cut):
            bounds = np.array([0, *(side for place in places for side in place), len(text)], np.int64)
            if np.any(np.diff(bounds) < 0) or any(start >= end for start, end in places):
                raise DocumentError(f"{self.name} gave starts and ends that do not rise inside the text")
            return places
        if places:
            raise DocumentError(f"{self.name} gave (word, start, end) for some words and not for others")
        words = [word for word, _ in cut]
        return _as_written(text, words) or placed(text, words, self.name)

    def _cut(self, text: str) -> list[Word]:
        try:
            with redirect_stdout(StringIO()):  # what it prints is not the command's answer
                words = list(self.function(text))
        except USERS_FUNCTION_RAISES as error:
            raise DocumentError(f"{self.name} cannot take it: {error_line(error)}") from error
        if not words:
            raise DocumentError(f"{self.name} finds no word in it")
        return [self._word(word) for word in words]

    def _word(self, given: Any) -> Word:
        word, place = given, None
        if isinstance(given, tuple) and len(given) == 3 and all(isinstance(side, int) for side in given[1:]):
            word, place = given[0], (given[1], given[2])
        if not isinstance(word, str) or not word:
            raise DocumentError(f"{self.name} gave {given!r}, which is no word")
        return word, place


def _as_written(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """Places of words that the text has as they are, one after the other; none where it lacks one."""
    places, here = list[tuple[int, int]](), 0
    for word in words:
        start = text.find(word, here)
        if start < 0:
            return []
        here = start + len(word)
        places.append((start, here))
    return places


def _lengths(strings: Sequence[str]) -> Ids:
    return np.fromiter(map(len, strings), np.int32, len(strings))


def _characters(strings: Sequence[str]) -> CodePoints:
    """The code points of all strings, one after the other."""
    return np.frombuffer("".join(strings).encode("utf-32-le", "surrogatepass"), np.uint32)


@kernel_in_place
def find_words(text: CodePoints, text_length: Ids, word: CodePoints, length: Ids, doc_starts: Ints, start: Ids) -> int:
    """Writes where each word starts in its text; returns the first that is not left there, or −1.

    Text i, of ``text_length[i]`` characters, has the words from ``doc_starts[i]`` up to ``doc_starts[i + 1]``.
    """
    begin = read = 0
    for i in range(len(text_length)):
        here, end = begin, begin + text_length[i]
        for k in range(doc_starts[i], doc_starts[i + 1]):
            start[k] = here - begin
            here = _found(text, here, end, word, read, length[k])
            if here < 0:
                return k
            start[k] = here - begin
            here += length[k]
            read += length[k]
        begin = end
    return -1


@kernel_in_place
def _found(text: CodePoints, here: int, end: int, word: CodePoints, first: int, length: int) -> int:
    """Position of a word in the text between ``here`` and ``end``; −1 if it is not there."""
    for place in range(here, end - length + 1):
        same = 0
        while same < length and text[place + same] == word[first + same]:
            same += 1
        if same == length:
            return place
    return -1
