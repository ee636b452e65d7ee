"""Column files such as CoNLL-2003: each line is a token in named columns, and a blank line ends a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from concord.schemas.columns import CORPUS_LAYOUT, LABELS, Notice, Reject
from concord.schemas.document import TOKENS, Document
from concord.schemas.errors import CorpusError, UsageError
from concord.workers.corpus.readers.lines import (
    BIO_FORM,
    LONE_FORM,
    PLAIN_FORM,
    DocumentDraft,
    Form,
    blocks,
    documents,
    has_boundary,
    has_prefixes,
    id_prefix,
    split_at_boundaries,
    split_by_count,
)
from concord.workers.corpus.readers.reader import ReaderItem, or_nothing, source_files
from concord.workers.corpus.settings import ColumnsSettings

TOKEN_COLUMNS = (TOKENS, "pos", "chunk", LABELS)
EACH_SENTENCE = (
    "no line opens a document, so each sentence is one, and labels agree inside it only; "
    "--set sentences_per_document=N joins N of them"
)


def read_columns(source: str, settings: ColumnsSettings) -> Iterator[ReaderItem]:
    """Documents ``eng.testa-0001``, ... of a file, or of all files of a folder; tags come out as BIO.

    If a file has lines that start with ``settings.boundary``, each of them opens a document; the sentences before the
    first are a document too. Other files are cut after every ``sentences_per_document`` sentences, which a notice says
    where nobody asked for it; if that is None, such a file raises `CorpusError`. Raises `UsageError` for a column name
    that the corpus layout uses for something else.
    """
    form = _form(settings)
    files = source_files(source)
    for path, name in files:
        prefix = id_prefix(name, settings.prefix, alone=len(files) == 1)
        lone = settings.scheme == "bio" and not has_prefixes(path, form)
        own = form._replace(labels=LONE_FORM) if lone else form
        drafts = _drafts(path, own, settings.sentences_per_document)
        items = documents(drafts, own, path=path, prefix=prefix)
        yield from or_nothing(path, _noticed(items, path, settings))


def _noticed(items: Iterator[Document | Reject], path: Path, settings: ColumnsSettings) -> Iterator[ReaderItem]:
    """The items, and what is to be told of where the sentences and documents of the file end."""
    sentences = found = tokens = 0
    for item in items:
        found += 1
        if isinstance(item, Document):
            sentences, tokens = sentences + len(item.sentence_starts), tokens + len(item)
        yield item
    if (found, sentences) == (1, 1) and tokens > 1:
        yield Notice(str(path), f"no blank line ends a sentence, so the whole file is one, of {tokens:,} tokens")
    elif sentences == found > 1 and "sentences_per_document" not in settings.model_fields_set:
        yield Notice(str(path), EACH_SENTENCE)


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
        None if settings.comments is None else settings.comments.encode(settings.encoding),
        settings.header,
        settings.ids,
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
        + (f". Besides, {head.fault.reason.partition(': write ')[0]}" if head.fault else "")
    )
