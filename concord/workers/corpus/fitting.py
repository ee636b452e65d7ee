"""Whether a reader fits a source, and which one does: a file of another form is refused before it is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from operator import itemgetter
from pathlib import Path
from shlex import quote
from typing import Any

from concord.schemas.columns import Notice
from concord.schemas.document import Document
from concord.schemas.errors import USERS_CODE_RAISES, CorpusError, InputError, error_line
from concord.schemas.labels import OUTSIDE
from concord.schemas.settings import ReaderSettings
from concord.workers.corpus.readers.reader import (
    FileStart,
    Likelihood,
    ReaderEntry,
    ReaderItem,
    SourceForm,
    source_files,
)
from concord.workers.corpus.readers.registry import READERS
from concord.workers.corpus.readers.unread_forms import LABEL_LIST, PACKED_SUFFIXES, UNREAD_FORMS
from concord.workers.parts import PartError
from concord.workers.storage.files import naming

TRIED = 20
"""Items of a file that are read to see whether a reader can."""


def form_of(path: Path) -> SourceForm | None:
    """The form of a file; None for plain text, and for whatever could be several.

    Raises `PartError` where the recogniser of a form, as another package may bring it, fails.
    """
    start = FileStart(path)
    return next((form for form in all_forms() if _recognises(form, start)), None)


def _recognises(form: SourceForm, start: FileStart) -> bool:
    try:
        return form.recognises(start)
    except USERS_CODE_RAISES as error:
        fault = f"whether it is {form} cannot be told, as the function that recognises it fails: {error_line(error)}"
        raise PartError(f"{start.path}: {fault}; mend the package that brings it, or take it out") from error


def all_forms() -> list[SourceForm]:
    """Forms that readers recognise, and those that no reader takes, in the order in which they are tried."""
    forms = [*UNREAD_FORMS, LABEL_LIST, *(form for _, entry in _readers() for form in entry.forms)]
    return sorted(forms, key=lambda form: form.rank)


def _readers() -> Iterator[tuple[str, ReaderEntry]]:
    """Readers by name, but for those that are of no use: this is told where one is asked for."""
    for name in READERS:
        try:
            entry = READERS[name]
        except PartError:
            continue
        yield name, entry


def check_form(reader: str, source: str, settings: ReaderSettings, *, answers: bool = False) -> None:
    """Raises `CorpusError` for a source with a file of a form that the reader does not take; it names one that does.

    A reader that names no forms takes any.

    - ``answers``: is it read for answers to a corpus that is there?
    """
    entry = READERS[reader]
    forms = (*entry.forms, *entry.takes)
    if not forms or "://" in source:
        return
    files = source_files(source)
    read = [path for path, _ in files if len(files) == 1 or not entry.suffixes or _is_meant(path, entry.suffixes)]
    for path in read or [path for path, _ in files]:
        with naming(path):
            form = form_of(path)
        if form is None or form in forms or (entry.asked is not None and entry.asked(form, settings)):
            continue
        if form.remedy:
            raise CorpusError(f"{path}: this is {form}, which no reader takes; {form.remedy}")
        place = Path(source) if form.in_folder and Path(source).is_dir() else path
        raise CorpusError(
            f"{path}: this is {form}, which the reader {reader!r} does not take{_advice(form, place, answers=answers)}"
        )


def _is_meant(path: Path, suffixes: tuple[str, ...]) -> bool:
    """Is a file of a folder one to read, packed or not? One that lies there unpacked, too, is read as that."""
    packed = path.suffix.lower() in PACKED_SUFFIXES and not path.with_suffix("").exists()
    return (path.stem if packed else path.name).endswith(suffixes)


def _advice(form: SourceForm, path: Path, *, answers: bool) -> str:
    """What reads the file, if anything does: a command, or the options of one for answers."""
    return next((f"; {_option(*fit) if answers else _ingest(path, *fit)} does" for fit in _fitting(form, path)), "")


def _fitting(form: SourceForm, path: Path) -> Iterator[tuple[str, str]]:
    """Readers that read the file with its labels, and their options as they are typed."""
    for reader, options in _fits(form, path):
        if _reads(READERS[reader], path, options):
            yield reader, "".join(f" --set {name}={_value(value)}" for name, value in options.items())


def _ingest(path: Path, reader: str, options: str) -> str:
    return f"`concord ingest {reader} {quote(str(path))}{options} --out FOLDER`"


def _option(reader: str, options: str) -> str:
    return f"--form {reader}{options}"


def command_for(source: str) -> str:
    """The command that reads a file of which a reader could read nothing; empty if none does, or for a folder."""
    path = Path(source).expanduser()
    form = form_of(path) if path.is_file() else None
    return "" if form is None else next((_ingest(path, *fit) for fit in _fitting(form, path)), "")


def _fits(form: SourceForm, path: Path) -> list[tuple[str, Mapping[str, Any]]]:
    """Readers that take files of a form, with options: the likeliest first, and of these the form's own reader."""
    fits: list[tuple[Likelihood, str, Mapping[str, Any]]] = []
    for name, entry in sorted(_readers(), key=lambda reader: form not in reader[1].forms):
        if entry.fits is not None and form in (*entry.forms, *entry.takes):
            fits += [(likelihood, name, options) for likelihood, options in entry.fits(form, path)]
        elif form in entry.forms:
            fits.append((Likelihood.USUAL, name, {}))
    return [(name, options) for _, name, options in sorted(fits, key=itemgetter(0))]


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
