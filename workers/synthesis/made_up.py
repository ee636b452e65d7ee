"""A corpus of concord's own making, with gold labels, for the demonstration and the tests."""

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

    ``news``: PER, LOC, ORG and MISC in BIO and a ``pos`` column with coarse tags. Names are
    introduced in telling contexts and recur in blind ones; most names of a document are new to
    the rest of the corpus. ``citations``: one label a token, such as ``author`` and ``title``,
    one citation a document. A document depends on (seed, its number) alone, so parts of a corpus
    can be made anywhere. Raises `ValueError` on an unknown kind and on negative numbers.
    """
    if kind not in _WRITERS:
        raise ValueError(unknown("kind of corpus", kind, _WRITERS))
    if documents < 0 or first < 0:
        raise ValueError(f"documents and first must not be negative, not {documents} and {first}")
    return _stream(documents, seed=seed, kind=kind, first=first)


def _stream(documents: int, *, seed: int, kind: Kind, first: int) -> Iterator[Document]:
    write = _WRITERS[kind]
    for number in range(first, first + documents):
        doc_id = f"{kind}-{number:09d}"
        yield write(Draws(document_rng(seed, doc_id)), doc_id)
