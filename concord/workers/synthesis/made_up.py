"""Made-up corpora with gold labels, for the demonstration and the tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from concord.schemas.document import Document
from concord.schemas.names import unknown
from concord.workers.inference.core.engine import document_rng
from concord.workers.synthesis.citations import citation
from concord.workers.synthesis.names import Draws
from concord.workers.synthesis.news import news

Kind = Literal["news", "citations"]

_WRITERS = {"news": news, "citations": citation}


def synthesize(documents: int, *, seed: int, kind: Kind, first: int = 0) -> Iterator[Document]:
    """Documents number ``first`` to ``first + documents - 1`` of an endless corpus, one at a time.

    - ``news``: PER, LOC, ORG and MISC in BIO, and a ``pos`` column with coarse tags. Names are introduced in contexts
      that reveal their type, and recur in contexts that do not. Most names of a document occur in no other.
    - ``citations``: one citation a document, with one label for each token, such as ``author`` and ``title``.

    A document depends only on the seed and its number, so parts of a corpus can be made anywhere. Its id has both, such
    as ``news-7-000000012``, so that corpora of several seeds can be one; the default seed, 0, is left out. Raises
    `ValueError` for an unknown kind and for negative numbers.
    """
    if kind not in _WRITERS:
        raise ValueError(unknown("kind of corpus", kind, _WRITERS))
    if documents < 0 or first < 0:
        raise ValueError(f"documents and first must not be negative, not {documents} and {first}")
    return _stream(documents, seed=seed, kind=kind, first=first)


def _stream(documents: int, *, seed: int, kind: Kind, first: int) -> Iterator[Document]:
    write = _WRITERS[kind]
    for number in range(first, first + documents):
        draws = Draws(document_rng(seed, f"{kind}-{number:09d}"))
        yield write(draws, f"{kind}-{seed}-{number:09d}" if seed else f"{kind}-{number:09d}")
