"""Column files such as CoNLL-2003: each line is a token in named columns, and a blank line ends a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from concord.schemas.columns import CORPUS_LAYOUT, LABELS, Notice, Reject
from concord.schemas.document import TOKENS, Document
from concord.schemas.errors import CorpusError, UsageError
from concord.schemas.label_names import read_label_names
from concord.schemas.labels import OUTSIDE, LabelError, Scheme
from concord.workers.corpus.readers.citations import TABLE_FORM
from concord.workers.corpus.readers.column_guess import column_options, ends_in_labels
from concord.workers.corpus.readers.lines import (
    BIO_FORM,
    LONE_FORM,
    PLAIN_FORM,
    SKIP,
    DocumentDraft,
    Form,
    blocks,
    documents,
    first_lines,
    has_boundary,
    has_prefixes,
    id_prefix,
    split_at_boundaries,
    split_by_count,
)
from concord.workers.corpus.readers.reader import (
    FileStart,
    Likelihood,
    ReaderEntry,
    ReaderItem,
    SourceForm,
    in_text,
    or_nothing,
    source_files,
)
from concord.workers.corpus.settings import ColumnsSettings, ConllSettings

AS_PLAIN: dict[str, Any] = {"scheme": "plain"}
BY_TABS: dict[str, Any] = {"separator": "tab"}
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


def _is_conll(text: str) -> bool:
    return re.search(r"(?m)^[ \t]*-DOCSTART-(?=\s|$)", text) is not None


def _is_columns(start: FileStart) -> bool:
    """Do the lines end in labels of spans, or in some that are meant to be?"""
    labels = [row[-1] for row in start.rows]
    return ends_in_labels(start.rows) or (_are_names_and_outside(labels) and not _are_types(labels))


def _is_plain(start: FileStart) -> bool:
    labels = [row[-1] for row in start.rows]
    capital = len(labels) > 2 and all(re.fullmatch(r"[A-Z][A-Z0-9_.-]*", label) for label in labels)
    return _are_names_and_outside(labels) or capital


def _are_names_and_outside(labels: Sequence[str]) -> bool:
    return OUTSIDE in labels and all(re.fullmatch(r"[A-Za-z][\w.-]*", label) for label in labels)


def _are_types(labels: Sequence[str]) -> bool:
    """Are the labels beside O types by themselves, and none meant to have a prefix?"""
    try:
        return read_label_names(dict.fromkeys(labels)).scheme is Scheme.PLAIN
    except LabelError:
        return False


CONLL_FORM = SourceForm("a column file with lines that open documents", 230, in_text(_is_conll))
COLUMNS_FORM = SourceForm("a column file", 290, _is_columns)
PLAIN_FORM_OF_COLUMNS = SourceForm("a column file with plain labels", 300, _is_plain)


def _fits(form: SourceForm, path: Path) -> Iterator[tuple[Likelihood, Mapping[str, Any]]]:
    """Options that the first lines ask for, the usual ones, and those by which the last column is the label."""
    lines = first_lines(path)
    plain = AS_PLAIN if form in (PLAIN_FORM_OF_COLUMNS, TABLE_FORM) else {}
    if form in (COLUMNS_FORM, TABLE_FORM):
        asked = (column_options(lines, separator) for separator in ("whitespace", "tab"))
        yield from ((Likelihood.ASKED, options) for options in asked if options)
    if form != TABLE_FORM:
        yield Likelihood.USUAL, plain
    if form != CONLL_FORM:
        yield Likelihood.USUAL, plain | BY_TABS
    if form != COLUMNS_FORM:
        yield from ((Likelihood.GUESS, options) for options in _wide(lines, plain))


def _wide(lines: Sequence[str], plain: dict[str, Any]) -> Iterator[Mapping[str, Any]]:
    line = next((line for line in lines if line.strip() and not line.startswith("-DOCSTART-")), "")
    for count, by in ((len(line.split()), dict[str, Any]()), (len(line.split("\t")), BY_TABS)):
        yield {"columns": (TOKENS, *[SKIP] * (count - 2), LABELS)} | plain | by


CONLL_READER = ReaderEntry(
    read_columns,
    ConllSettings,
    "CoNLL-2003: word, pos, chunk, tag; -DOCSTART- opens a document",
    forms=(CONLL_FORM,),
    takes=(COLUMNS_FORM, PLAIN_FORM_OF_COLUMNS, TABLE_FORM),
)
COLUMNS_READER = ReaderEntry(
    read_columns,
    ColumnsSettings,
    "column files such as CoNLL-2000, CoNLL-2002 and WNUT",
    forms=(COLUMNS_FORM, PLAIN_FORM_OF_COLUMNS),
    takes=(CONLL_FORM, TABLE_FORM),
    fits=_fits,
)
