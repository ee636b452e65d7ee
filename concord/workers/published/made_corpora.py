"""Corpora of papers: made once of the data folder, or of the project's own generator."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from concord.schemas.columns import Misfit, Reject
from concord.schemas.document import Document
from concord.schemas.published import PublishedCorpus
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.plan import plan
from concord.workers.corpus.readers.registry import READERS
from concord.workers.corpus.shards import read_batch
from concord.workers.storage.files import naming
from concord.workers.synthesis.made_up import Kind, synthesize

DIGEST_LETTERS = 12


class MissingDataError(Exception):
    """Data that a table needs and that are not there; the message says what."""


class DataFolders(NamedTuple):
    """Where corpora come from.

    - ``data``: data folder; None for made-up documents
    - ``test_parts``: folder of official test parts; None where there are none
    """

    data: Path | None
    test_parts: Path | None = None

    def official(self, corpus: PublishedCorpus) -> Path | None:
        """The official test part that is read in the place of a corpus, from the folder or one named as its own."""
        if self.data is None or self.test_parts is None:
            return None
        places = (self.test_parts, self.test_parts / Path(corpus.source).parent)
        return next((at / name for name in corpus.test_part for at in places if (at / name).is_file()), None)

    def origin(self, name: str, corpus: PublishedCorpus) -> str:
        """A sentence: the official test part of a corpus, or what stands for it."""
        file, names = self.official(corpus), " or ".join(corpus.test_part)
        if file is not None:
            return f"{name}: the official test part, {file.name}."
        own = "made-up documents" if self.data is None else f"{corpus.source}{_told_part(corpus)}"
        return f"{name}: {own} in place of the official test part ({names})."


def made_corpus(name: str, corpora: Mapping[str, PublishedCorpus], *, sources: DataFolders, folder: Path) -> Path:
    """One of the corpora below ``folder``, made if it is not there yet.

    The same declaration and the same source have the same place. Raises `MissingDataError`, `CorpusError` where the
    source cannot be read, and `OutputError`.
    """
    corpus = corpora[name]
    if sources.data is None:
        return _stand_in(name, corpus, folder)
    source, cut = sources.official(corpus), corpus
    if source is not None or (corpus.whole_with and sources.official(corpora[corpus.whole_with])):
        cut = corpus.model_copy(update={"last": None, "without_last": None})
    source = source or sources.data / corpus.source
    if not source.exists():
        raise MissingDataError(f"{corpus.source} is not in the data folder")
    choices = cut.model_dump(mode="json", exclude={"made_up", "source", "test_part", "whole_with"})
    place = folder / f"{name}-{_digest(choices, _content(source))}"
    if not place.exists():
        entry = READERS[corpus.reader]
        with naming(source):
            items = list(entry.read(str(source), entry.settings.model_validate(corpus.options)))
            write_corpus(_part(_cut_up(items) if cut.sentences else items, cut), place, source=str(source))
    return place


def documents_in(place: Path) -> Sequence[Document]:
    """All documents of a corpus. Raises `CorpusError`."""
    return [document for shard in plan(str(place)) for document in read_batch(shard)[0]]


def label_names(documents: Iterable[Document]) -> set[str]:
    """Names of the gold labels."""
    return {name for document in documents if document.labels is not None for name in document.labels.values}


def _told_part(corpus: PublishedCorpus) -> str:
    return "" if corpus.last is None else f", the last {corpus.last:,} documents,"


def _cut_up(items: Iterable[Any]) -> list[Any]:
    """The items, with each sentence as a document of its own."""
    return [part for item in items for part in (_sentences(item) if isinstance(item, Document) else (item,))]


def _sentences(document: Document) -> Iterator[Document]:
    bounds = [*document.sentence_starts.tolist(), len(document)]
    for number, (start, end) in enumerate(pairwise(bounds)):
        columns = {name: column[start:end] for name, column in document.columns.items()}
        gold = None if document.labels is None else document.labels[start:end]
        yield Document(f"{document.doc_id}-{number}", np.zeros(1, np.int64), columns, gold)


def _stand_in(name: str, corpus: PublishedCorpus, folder: Path) -> Path:
    if corpus.made_up is None:
        raise MissingDataError(f"no made-up corpus stands in for {corpus.source}")
    recipe = corpus.made_up
    place = folder / f"{name}-made-up-{_digest(recipe.model_dump(mode='json'), b'')}"
    if not place.exists():
        documents = synthesize(recipe.documents, seed=recipe.seed, kind=cast("Kind", recipe.kind))
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


def _digest(choices: Any, content: bytes) -> str:
    return hashlib.sha256(json.dumps(choices, sort_keys=True).encode() + content).hexdigest()[:DIGEST_LETTERS]


def _content(source: Path) -> bytes:
    """Digest of the bytes of a file, or of all files in a folder."""
    state = hashlib.sha256()
    with naming(source):
        for file in sorted(source.rglob("*")) if source.is_dir() else [source]:
            if file.is_file():
                state.update(file.relative_to(source.parent).as_posix().encode() + b"\0" + file.read_bytes())
    return state.digest()
