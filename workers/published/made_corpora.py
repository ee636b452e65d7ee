"""Corpora of papers: made once of the data folder, or of the project's own generator."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any, cast

from concord.schemas.columns import Misfit, Reject
from concord.schemas.document import Document
from concord.schemas.published import PublishedCorpus
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.readers.registry import READERS
from concord.workers.storage.files import naming
from concord.workers.synthesis.made_up import Kind, synthesize

DIGEST_LETTERS = 12


class MissingDataError(Exception):
    """Data that a table needs and that are not there; the message says what."""


def made_corpus(name: str, corpus: PublishedCorpus, *, data: Path | None, folder: Path) -> Path:
    """The corpus below ``folder``, made if it is not there yet; ``data`` is None for made-up documents.

    The same declaration and the same source have the same place. Raises `MissingDataError`, `CorpusError` where the
    source cannot be read, and `OutputError`.
    """
    if data is None:
        return _stand_in(name, corpus, folder)
    source = data / corpus.source
    if not source.exists():
        raise MissingDataError(f"{corpus.source} is not in the data folder")
    given = corpus.model_dump(mode="json", exclude={"made_up"})
    place = folder / f"{name}-{_digest(given, _content(source))}"
    if not place.exists():
        entry = READERS[corpus.reader]
        with naming(source):
            items = _part(list(entry.read(str(source), entry.settings.model_validate(corpus.options))), corpus)
            write_corpus(items, place, source=str(source))
    return place


def _stand_in(name: str, corpus: PublishedCorpus, folder: Path) -> Path:
    if corpus.made_up is None:
        raise MissingDataError(f"no made-up corpus stands in for {corpus.source}")
    given = corpus.made_up
    place = folder / f"{name}-made-up-{_digest(given.model_dump(mode='json'), b'')}"
    if not place.exists():
        documents = synthesize(given.documents, seed=given.seed, kind=cast("Kind", given.kind))
        write_corpus(documents, place, source="made up")
    return place


def _part(items: list[Any], corpus: PublishedCorpus) -> Iterable[Document | Reject | Misfit]:
    """The documents at the end, or the others; rejects and misfits go with the documents before them."""
    at = [i for i, item in enumerate(items) if isinstance(item, Document)]
    count = corpus.last or corpus.without_last
    if count is None or not at:
        return items
    cut = at[-count] if count < len(at) else 0
    return islice(items, cut, None) if corpus.last else islice(items, cut)


def _digest(given: Any, content: bytes) -> str:
    return hashlib.sha256(json.dumps(given, sort_keys=True).encode() + content).hexdigest()[:DIGEST_LETTERS]


def _content(source: Path) -> bytes:
    """Digest of the bytes of a file, or of all files in a folder."""
    state = hashlib.sha256()
    with naming(source):
        for file in sorted(source.rglob("*")) if source.is_dir() else [source]:
            if file.is_file():
                state.update(file.relative_to(source.parent).as_posix().encode() + b"\0" + file.read_bytes())
    return state.digest()
