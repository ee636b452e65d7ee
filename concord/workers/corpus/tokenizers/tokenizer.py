"""Contract of tokenizers: a tokenizer cuts texts of a language into tokens, and states its version."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from concord.schemas.document import Column
from concord.schemas.errors import InputError, UsageError


class TokenizerError(InputError):
    """A tokenizer is not installed, or installed in another version than the one required."""


class LanguageError(UsageError):
    """The tokenizer has no rules for a language."""


class Cuts(NamedTuple):
    """D texts cut into N tokens, in order.

    - ``doc_starts`` (D + 1,): the tokens of text i are doc_starts[i]:doc_starts[i + 1].
    - ``start``, ``end`` (N,): characters in the token's own text; text[start:end] is the token.

    No token is empty or holds white space, and no two overlap.
    """

    tokens: Column
    doc_starts: NDArray[np.int64]
    start: NDArray[np.int32]
    end: NDArray[np.int32]

    @classmethod
    def of(cls, texts: Sequence[str], spans: Iterable[Iterable[tuple[int, int]]]) -> Self:
        """Cuts of texts at ``spans``: for each token its first character and the one after its last."""
        spans_of_texts = [list(one) for one in spans]
        bounds = np.array(list(chain.from_iterable(spans_of_texts)), np.int32).reshape(-1, 2)
        words = [text[a:b] for text, own in zip(texts, spans_of_texts, strict=True) for a, b in own]
        doc_starts = np.cumsum([0, *map(len, spans_of_texts)]).astype(np.int64)
        start, end = (np.ascontiguousarray(bounds[:, side]) for side in (0, 1))
        return cls(Column.encode(words), doc_starts, start, end)


RUN_LIMIT = 256
"""Longest run without white space, in characters; a longer one is cut, since the cost of rules could be quadratic."""

Cut = Callable[[Sequence[str]], Cuts]
"""Function that cuts texts, empty ones included. It cuts a text the same way whatever other texts come with it."""


class Tokenizer(NamedTuple):
    """Registry entry of a tokenizer.

    - ``open``: function from a language (ISO 639-1) to a `Cut`; raises `LanguageError` for one that it has no rules
      for.
    - ``summary``: one line of help.
    - ``version``: changes whenever a text may be cut differently.
    - ``library``: distribution whose version counts instead, where the cutting is up to a library.
    - ``install``: name to give to pip to install that library.
    """

    open: Callable[[str], Cut]
    summary: str
    version: str = ""
    library: str = ""
    install: str = ""

    def installed(self) -> str | None:
        """Installed version; None where the library is not installed."""
        if not self.library:
            return self.version
        try:
            return importlib.metadata.version(self.library)
        except importlib.metadata.PackageNotFoundError:
            return None
