"""A tokenizer of the user's: a function of a text that returns its words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from schemas.document import Column
from schemas.errors import USERS_CODE_RAISES, DocumentError
from workers.corpus.readers.tokenizer import Tokenized


class OwnTokenizer(NamedTuple):
    """Cuts each text into the words that ``function`` returns, one sentence a text; ``name`` is MODULE:FUNCTION."""

    name: str
    function: Callable[[str], Any]

    def __call__(self, texts: Sequence[str]) -> Tokenized:
        """Tokens of all texts, in order. Raises `DocumentError` as `cut` does."""
        words: list[str] = []
        places: list[int] = []
        doc_starts = np.zeros(len(texts) + 1, np.int64)
        for i, text in enumerate(texts):
            found, at = self.cut(text)
            words += found
            places += at
            doc_starts[i + 1] = len(words)
        start = np.array(places, np.int32)
        length = np.fromiter(map(len, words), np.int32, len(words))
        return Tokenized(Column.encode(words), doc_starts, doc_starts[:-1], start, start + length)

    def cut(self, text: str) -> tuple[list[str], list[int]]:
        """The words of a text, and the characters that they start at: the first that is left for each, in their order.

        Raises `DocumentError` where the function cannot take the text, gives no words, or words that are not there.
        """
        try:
            words = list(self.function(text))
        except USERS_CODE_RAISES as error:
            raise DocumentError(f"{self.name} cannot take it: {type(error).__name__}: {error}") from error
        if not words:
            raise DocumentError(f"{self.name} finds no word in it")
        places, end = [], 0
        for word in words:
            if not isinstance(word, str) or not word:
                raise DocumentError(f"{self.name} gave {word!r}, which is no word")
            start = text.find(word, end)
            if start < 0:
                raise DocumentError(f"{self.name} gave {word!r}, which the text does not have from character {end} on")
            places.append(start)
            end = start + len(word)
        return words, places
