"""What a tokenizer is: a part that cuts texts of a language into tokens, and that says which version of it does."""

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
    """A tokenizer that is not here, or is here in another version than is wanted."""


class LanguageError(UsageError):
    """A language that there are no rules for."""


class Cuts(NamedTuple):
    """D texts cut into N tokens in their order: those of text i are from ``doc_starts[i]`` up to ``doc_starts[i + 1]``.

    ``start`` and ``end`` (N,) are characters in the token's own text: ``text[start:end]`` is the token. No token is
    empty or has white space in it, and none overlaps another. ``doc_starts`` is (D + 1,).
    """

    tokens: Column
    doc_starts: NDArray[np.int64]
    start: NDArray[np.int32]
    end: NDArray[np.int32]

    @classmethod
    def of(cls, texts: Sequence[str], spans: Iterable[Iterable[tuple[int, int]]]) -> Self:
        """The tokens of each text by their first characters, and the ones after their last."""
        found = [list(one) for one in spans]
        bounds = np.array(list(chain.from_iterable(found)), np.int32).reshape(-1, 2)
        words = [text[a:b] for text, own in zip(texts, found, strict=True) for a, b in own]
        doc_starts = np.cumsum([0, *map(len, found)]).astype(np.int64)
        start, end = (np.ascontiguousarray(bounds[:, side]) for side in (0, 1))
        return cls(Column.encode(words), doc_starts, start, end)


RUN_LIMIT = 256
"""Characters without white space after which a run is cut: what rules cost could grow with their square."""

Cut = Callable[[Sequence[str]], Cuts]
"""Cuts texts; any text, also an empty one. The same text is cut alike, whatever comes before it or beside it."""


class Tokenizer(NamedTuple):
    """A registry entry: a function from a language (ISO 639-1) to what cuts its texts, and one line of help.

    ``open`` raises `LanguageError` for a language that it has no rules for. ``version`` changes whenever a text may be
    cut differently. Where that is up to a library, ``library`` is the distribution whose version it is instead, and
    ``install`` is what pip is given to have it.
    """

    open: Callable[[str], Cut]
    summary: str
    version: str = ""
    library: str = ""
    install: str = ""

    def installed(self) -> str | None:
        """The version that is here; None where its library is not."""
        if not self.library:
            return self.version
        try:
            return importlib.metadata.version(self.library)
        except importlib.metadata.PackageNotFoundError:
            return None
