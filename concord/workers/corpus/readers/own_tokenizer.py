"""A user's own tokenizer: a Python function from a text to its words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from concord.schemas.arrays import Ids, Ints
from concord.schemas.document import Column
from concord.schemas.errors import USERS_CODE_RAISES, DocumentError
from concord.workers.compiling.interpreted import runnable
from concord.workers.compiling.kernel import kernel_in_place
from concord.workers.corpus.tokenizers.sentences import Tokenized

CodePoints = NDArray[np.uint32]


class OwnTokenizer(NamedTuple):
    """Cuts each text into the words that ``function`` returns, one sentence a text; ``name`` is MODULE:FUNCTION."""

    name: str
    function: Callable[[str], Any]

    def __call__(self, texts: Sequence[str]) -> Tokenized:
        """Tokens of all texts, in order; each word is found at its first occurrence after the word before.

        Raises `DocumentError` where the function fails on a text, returns no words, or words that the text lacks.
        """
        words: list[str] = []
        ends = [0]
        for text in texts:
            words += self._cut(text)
            ends.append(len(words))
        wrong = [word for word in words if not isinstance(word, str) or not word]
        if wrong:
            raise DocumentError(f"{self.name} gave {wrong[0]!r}, which is no word")
        doc_starts, length = np.array(ends, np.int64), _lengths(words)
        start = np.zeros(len(words), np.int32)
        lost = runnable(find_words)(_characters(texts), _lengths(texts), _characters(words), length, doc_starts, start)
        if lost >= 0:
            raise DocumentError(
                f"{self.name} gave {words[lost]!r}, which the text does not have from character {start[lost]} on"
            )
        return Tokenized(Column.encode(words), doc_starts, doc_starts[:-1], start, start + length)

    def _cut(self, text: str) -> list[Any]:
        try:
            words = list(self.function(text))
        except USERS_CODE_RAISES as error:
            raise DocumentError(f"{self.name} cannot take it: {type(error).__name__}: {error}") from error
        if not words:
            raise DocumentError(f"{self.name} finds no word in it")
        return words


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
