"""CoNLL-2003: word, part of speech, chunk, tag; Tjong Kim Sang & De Meulder (2003)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from schemas.columns import LABELS, Reject
from schemas.document import TOKENS, Document
from schemas.settings import ConllSettings
from workers.corpus.parquet import CorpusError
from workers.corpus.readers.lines import Form, blocks, documents, id_prefix, split_at_boundaries, split_by_count
from workers.corpus.readers.reader import source_files

FORM = Form((TOKENS, "pos", "chunk", LABELS), "whitespace", "bio", b"-DOCSTART-")


def read_conll(source: str, settings: ConllSettings) -> Iterator[Document | Reject]:
    """Documents ``eng.testa-0001``, ... of a file, or of all files of a folder; tags come out as BIO.

    Raises `CorpusError` where a file has no ``-DOCSTART-`` lines and ``sentences_per_document``
    is not set.
    """
    files = source_files(source)
    for path, name in files:
        stream = blocks(path, FORM)
        head = next(stream, None)
        if head is None:
            continue
        stream = chain([head], stream)
        if head.opens_document:
            drafts = split_at_boundaries(stream)
        elif settings.sentences_per_document is not None:
            drafts = split_by_count(stream, settings.sentences_per_document)
        else:
            raise CorpusError(
                f"{path}: line {head.line} is not a -DOCSTART- line; set sentences_per_document to make documents "
                "of so many sentences each"
            )
        prefix = id_prefix(name, settings.prefix, alone=len(files) == 1)
        yield from documents(drafts, FORM, path=path, prefix=prefix)
