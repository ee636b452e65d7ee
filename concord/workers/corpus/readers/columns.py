"""Column files such as CoNLL-2003: each line is a token in named columns, and a blank line ends a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from concord.schemas.columns import CORPUS_LAYOUT, LABELS, Reject
from concord.schemas.document import TOKENS, Document
from concord.schemas.errors import CorpusError, UsageError
from concord.workers.corpus.readers.lines import (
    BIO_FORM,
    PLAIN_FORM,
    DocumentDraft,
    Form,
    blocks,
    documents,
    has_boundary,
    id_prefix,
    split_at_boundaries,
    split_by_count,
)
from concord.workers.corpus.readers.reader import or_nothing, source_files
from concord.workers.corpus.settings import ColumnsSettings

TOKEN_COLUMNS = (TOKENS, "pos", "chunk", LABELS)


def read_columns(source: str, settings: ColumnsSettings) -> Iterator[Document | Reject]:
    """Documents ``eng.testa-0001``, ... of a file, or of all files of a folder; tags come out as BIO.

    If a file has lines that start with ``settings.boundary``, each of them opens a document; the sentences before the
    first are a document too. Other files are cut after every ``sentences_per_document`` sentences; if that is None,
    such a file raises `CorpusError`. Raises `UsageError` for a column name that the corpus layout uses for something
    else.
    """
    form = _form(settings)
    files = source_files(source)
    for path, name in files:
        prefix = id_prefix(name, settings.prefix, alone=len(files) == 1)
        drafts = _drafts(path, form, settings.sentences_per_document)
        yield from or_nothing(path, documents(drafts, form, path=path, prefix=prefix))


def _form(settings: ColumnsSettings) -> Form:
    layout = {*CORPUS_LAYOUT.required.names, *CORPUS_LAYOUT.optional.names} - set(TOKEN_COLUMNS)
    taken = [name for name in settings.columns if name in layout]
    if taken:
        raise UsageError(f"columns: a corpus has a column {taken[0]!r} of its own; give this one another name")
    boundary = None if settings.boundary is None else settings.boundary.encode(settings.encoding)
    return Form(
        settings.columns,
        settings.separator,
        BIO_FORM if settings.scheme == "bio" else PLAIN_FORM,
        settings.encoding,
        boundary,
    )


def _drafts(path: Path, form: Form, sentences_per_document: int | None) -> Iterator[DocumentDraft]:
    stream = blocks(path, form)
    if has_boundary(path, form):
        return split_at_boundaries(stream)
    if sentences_per_document is not None:
        return split_by_count(stream, sentences_per_document)
    head = next(stream, None)
    if head is None:
        return iter(())
    boundary = (form.boundary or b"").decode(form.encoding)
    raise CorpusError(
        f"{path}: no line opens a document with {boundary!r}; say where documents end, with --set "
        "sentences_per_document=10, or with --set boundary=WORD for a line that starts with another word"
        + (f". Besides, {head.fault.reason}" if head.fault else "")
    )
