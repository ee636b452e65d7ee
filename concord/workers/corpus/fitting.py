"""Whether a reader fits a source, and which one does: a file of another form is refused before it is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any

from concord.schemas.columns import Notice
from concord.schemas.document import Document
from concord.schemas.errors import CorpusError, InputError
from concord.schemas.labels import OUTSIDE
from concord.schemas.settings import ReaderSettings
from concord.workers.corpus.readers.column_guess import column_options, conllu_labels
from concord.workers.corpus.readers.reader import ReaderEntry, ReaderItem, SourceForm, source_files
from concord.workers.corpus.readers.registry import READERS
from concord.workers.corpus.readers.source_forms import form_of
from concord.workers.corpus.readers.unread_forms import UNREAD_FORMS
from concord.workers.storage.files import naming

AS_PLAIN = {"scheme": "plain"}
BY_TABS = {"separator": "tab"}
FITTING: Mapping[SourceForm, tuple[tuple[str, Mapping[str, Any]], ...]] = {
    SourceForm.PARQUET: (("parquet", {}), ("text", {})),
    SourceForm.DOC_BIN: (("spans", {}),),
    SourceForm.BRAT: (("spans", {}),),
    SourceForm.XML: (("xml", {}),),
    SourceForm.SPANS: (("spans", {}),),
    SourceForm.TEXTS: (("text", {}),),
    SourceForm.CONLLU: (("conllu", {}),),
    SourceForm.CONLL: (("conll", {}), ("columns", {})),
    SourceForm.NESTED: (("umass", {}),),
    SourceForm.COLUMNS: (("columns", {}), ("columns", BY_TABS)),
    SourceForm.PLAIN_COLUMNS: (("columns", AS_PLAIN), ("columns", AS_PLAIN | BY_TABS)),
    SourceForm.TABLE: (("citations", {}), ("columns", AS_PLAIN | BY_TABS)),
    SourceForm.PUBTATOR: (("pubtator", {}),),
    SourceForm.ADDRESSES: (("addresses", {}),),
    SourceForm.TAGGED_LINES: (("citations", {}),),
    SourceForm.MAIL: (("mail", {}),),
    SourceForm.CSV: (("text", {}),),
    SourceForm.LABEL_LIST: (),
    **dict.fromkeys(UNREAD_FORMS, ()),
}
"""Readers of each form, with options: the first one that reads a document of the file is proposed."""
LINES_LOOKED_AT = 200
"""Lines of a file that are looked at for its labels."""
TRIED = 20
"""Items of a file that are read to see whether a reader can."""


def check_form(reader: str, source: str, settings: ReaderSettings) -> None:
    """Raises `CorpusError` for a source with a file of a form that the reader does not take; it names one that does.

    Readers of other packages take any form.
    """
    entry = READERS[reader]
    if entry.forms is None or "://" in source:
        return
    files = source_files(source)
    read = [path for path, name in files if len(files) == 1 or not entry.suffixes or name.endswith(entry.suffixes)]
    for path in read or [path for path, _ in files]:
        with naming(path):
            form = form_of(path)
        if form is None or form in entry.forms or (entry.asked is not None and entry.asked(form, settings)):
            continue
        if form in UNREAD_FORMS:
            raise CorpusError(f"{path}: this is {form}, which no reader takes; {UNREAD_FORMS[form]}")
        place = Path(source) if form is SourceForm.BRAT and Path(source).is_dir() else path
        raise CorpusError(f"{path}: this is {form}, which the reader {reader!r} does not take{_advice(form, place)}")


def _advice(form: SourceForm, path: Path) -> str:
    """The command that reads the file, if one does."""
    command = _command(form, path)
    return f"; {command} does" if command else ""


def _command(form: SourceForm, path: Path) -> str:
    """The command that reads the file with its labels; empty if none does."""
    for reader, options in [*_of_content(form, path), *FITTING[form], *_wide(form, path)]:
        if _reads(READERS[reader], path, options):
            options_text = "".join(f" --set {name}={_value(value)}" for name, value in options.items())
            return f"`concord ingest {reader} {quote(str(path))}{options_text} --out FOLDER`"
    return ""


def command_for(source: str) -> str:
    """The command that reads a file of which a reader could read nothing; empty if none does, or for a folder."""
    path = Path(source).expanduser()
    form = form_of(path) if path.is_file() else None
    return "" if form is None else _command(form, path)


def _of_content(form: SourceForm, path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The reader with options that the start of the file asks for: where its labels are, a header, and comments."""
    if form not in (SourceForm.CONLLU, SourceForm.COLUMNS, SourceForm.TABLE):
        return
    with path.open("rb") as file:
        lines = [line.decode("utf-8", errors="replace").strip("\r\n") for line in islice(file, LINES_LOOKED_AT)]
    if form is SourceForm.CONLLU and (key := conllu_labels(lines)):
        yield "conllu", {"labels": key}
    if form is SourceForm.CONLLU:
        return
    for separator in ("whitespace", "tab"):
        if options := column_options(lines, separator):
            yield "columns", options


def _wide(form: SourceForm, path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """For a file of more than two columns: the first is taken for the word, and the last for the label."""
    if form not in (SourceForm.PLAIN_COLUMNS, SourceForm.CONLL, SourceForm.TABLE):
        return
    with path.open("rb") as file:
        head = [line for line in islice(file, 50) if line.strip() and not line.startswith(b"-DOCSTART-")]
    line = head[0].decode("utf-8", errors="replace") if head else ""
    for separator, count in (("whitespace", len(line.split())), ("tab", len(line.split("\t")))):
        columns = ("tokens", *["_"] * (count - 2), "labels")
        plain = AS_PLAIN if form in (SourceForm.PLAIN_COLUMNS, SourceForm.TABLE) else {}
        yield "columns", {"columns": columns} | plain | ({} if separator == "whitespace" else BY_TABS)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _reads(entry: ReaderEntry, path: Path, options: Mapping[str, Any]) -> bool:
    """Does a reader read a document in the first items of a file?"""
    try:
        items = entry.read(str(path), entry.settings(**options))
        return any(isinstance(item, Document) for item in islice(items, TRIED))
    except InputError:
        return False


def _is_text(source: str) -> bool:
    """Would the reader of raw text take a source?"""
    try:
        check_form("text", source, READERS["text"].settings())
    except CorpusError:
        return False
    return _reads(READERS["text"], Path(source), {})


def _with_advice(source: str, items: Iterable[ReaderItem]) -> Iterator[ReaderItem]:
    """The items; a `CorpusError` before the first of them has the command that reads the source, if one does."""
    nothing = True
    try:
        for item in items:
            nothing = False
            yield item
    except CorpusError as error:
        command = command_for(source) if nothing else ""
        if not command:
            raise
        raise CorpusError(f"{error}; {command} reads it") from None


def with_what_it_must_have(reader: str, source: str, items: Iterable[ReaderItem]) -> Iterator[ReaderItem]:
    """The items of a reader. Raises `CorpusError` at their end if none of the documents has what its form must have.

    Where the source cannot be read at all, the error has the command that reads it.
    """
    entry, documents, marked = READERS[reader], 0, 0
    for item in _with_advice(source, items):
        if isinstance(item, Document) and item.labels is not None:
            documents += 1
            marked += any(label != OUTSIDE for label in item.labels.strings()) if not marked else 0
        yield item
    if not documents or marked:
        return
    if entry.finds:
        as_text = _is_text(source)
        remedy = f"; `concord ingest text {quote(source)} --out FOLDER` reads it as text" if as_text else ""
        raise CorpusError(f"{source}: no {entry.finds} in any of its {documents:,} documents{remedy}")
    yield Notice(source, "all labels are O, so there is nothing to learn from")
