"""Records of tagged fields in XML: AnyStyle's datasets, GROBID's TEI, parserator's training files.

A record is an element such as ``<sequence>`` or ``<bibl>``, and each element in it a field. What stands between the
fields has no label.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from xml.parsers import expat

from concord.schemas.columns import Misfit, Notice, Reject
from concord.schemas.document import Column, Document
from concord.schemas.errors import CorpusError
from concord.schemas.labels import OUTSIDE
from concord.schemas.names import nearest
from concord.workers.corpus.readers.lines import id_prefix
from concord.workers.corpus.readers.reader import (
    EMPTY_FILE,
    BadLineError,
    ReaderEntry,
    ReaderItem,
    SourceForm,
    decoded,
    in_text,
    source_files,
)
from concord.workers.corpus.readers.spans import CharSpan, marked_document
from concord.workers.corpus.readers.text import text_of_bytes
from concord.workers.corpus.readers.xml_tree import Element, XmlError, parse_xml
from concord.workers.corpus.settings import XmlSettings

DECLARED_ENCODING = re.compile(rb"""^\s*<\?xml[^>]*?encoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")
XML_BLANKS = re.compile(r"\s+")
KNOWN_RECORDS = ("sequence", "bibl", "biblStruct", "AddressString", "Name")
"""Records of AnyStyle, of TEI, and of parserator's address and name parsers."""
JOINS = tuple(" ([-–—/'\"")
"""What a field may end with so that the next one goes on with the same word."""
MILESTONES = ("lb", "pb", "cb", "gb", "br")
"""Empty elements at which a line, page or column of the source begins, in TEI and on pages."""
TELLING_ATTRIBUTES = ("level", "unit", "type")
"""Attributes by which TEI tells fields of one name apart."""


class _RecordText(NamedTuple):
    """The text of a record and its fields; ``line`` is where the record starts."""

    text: str
    fields: list[CharSpan]
    line: int


def read_xml(source: str, settings: XmlSettings) -> Iterator[ReaderItem]:
    """Documents ``core-0001``, ... of a file or of all ``.xml`` files of a folder, one sentence each.

    A notice says which elements were taken as records and fields. After a place that is no XML nothing of a file is
    read, which is a reject.
    """
    files = source_files(source)
    chosen = files if len(files) == 1 else [file for file in files if file[0].suffix.lower() == ".xml"]
    if not chosen:
        raise CorpusError(f"{source}: no .xml files in this folder; check the path")
    for path, name in chosen:
        stem = name.removesuffix(".xml").removesuffix(".tei")
        yield from _read(path, id_prefix(stem, settings.prefix, alone=len(chosen) == 1), settings)


def _read(path: Path, prefix: str, settings: XmlSettings) -> Iterator[ReaderItem]:
    raw = path.read_bytes()
    text = text_of_bytes(raw, str(path), f"{prefix}-0001", _encoding(raw, settings))
    if isinstance(text, Reject):
        yield text if text.reason != EMPTY_FILE else text._replace(doc_id=None)
        return
    broken: XmlError | None = None
    try:
        root: Element | None = parse_xml(text.lstrip())
    except XmlError as error:
        root, broken = error.whole, error
    record, number = None if root is None else _record_name(root, settings.record), 0
    for element in [] if root is None or record is None else _outermost(root, record):
        number += 1
        yield from _document(path, f"{prefix}-{number:04d}", element, settings)
    if number and root is not None and record is not None:
        yield Notice(str(path), _told(_outermost(root, record), record, settings))
    if broken is not None:
        lost = f"{broken}; mend it: no record from there on can be read"
        yield Reject(str(path), broken.line, f"{prefix}-{number + 1:04d}", lost)
    elif not number:
        names = dict.fromkeys(element.name for element in root.walk()) if root is not None else {}
        wanted = "" if settings.record is None else f" called {settings.record!r}{nearest(settings.record, names)}"
        yield Reject(
            str(path), None, None, f"no records of fields{wanted}; name the element of a record: --set record=NAME"
        )


def _encoding(raw: bytes, settings: XmlSettings) -> str:
    """The encoding that was asked for, or else the one that the file declares."""
    declared = DECLARED_ENCODING.match(raw)
    if declared is None or "encoding" in settings.model_fields_set:
        return settings.encoding
    name = declared[1].decode("ascii").lower()
    try:
        decoded(b"", name)
    except LookupError:
        return settings.encoding
    return "utf-8" if name in ("utf8", "us-ascii") else name


def _record_name(root: Element, asked: str | None) -> str | None:
    """Name of the elements that are records: one that was asked for, one of `KNOWN_RECORDS`, or else the one whose
    elements hold most kinds of fields; None if there are none."""
    kinds: dict[str, set[str]] = {}
    count: Counter[str] = Counter()
    for element in root.walk():
        names = {child.name for child in element.elements if child.text.strip()}
        if names:
            kinds.setdefault(element.name, set()).update(names)
            count[element.name] += 1
    if asked is not None:
        return asked if asked in kinds else None
    known = [name for name in KNOWN_RECORDS if name in kinds]
    return known[0] if known else max(kinds, key=lambda name: (len(kinds[name]), count[name]), default=None)


def _outermost(root: Element, name: str) -> list[Element]:
    """The elements of a name with fields inside, which are not in another one of the name."""
    if root.name == name and any(child.text.strip() for child in root.elements):
        return [root]
    return [found for element in root.elements for found in _outermost(element, name)]


def _document(path: Path, doc_id: str, element: Element, settings: XmlSettings) -> Iterator[Document | Reject | Misfit]:
    try:
        pieces = _pieces(element, settings)
    except BadLineError as error:
        yield Reject(str(path), element.line, doc_id, f"line {element.line}: {error}")
        return
    document, faults = marked_document(doc_id, pieces.text, pieces.fields, settings, breaks=[])
    yield document if settings.scheme == "bio" else _plain(document)
    for span, reason in faults:
        yield Misfit(str(path), span.line, doc_id, reason)


def _plain(document: Document) -> Document:
    """The document with the field of each token as its label."""
    assert document.labels is not None
    names = [name if name == OUTSIDE else name[2:] for name in document.labels.strings()]
    return replace(document, labels=Column.encode(names))


def _pieces(record: Element, settings: XmlSettings) -> _RecordText:
    """The text of a record, in which each run of blanks is one, and its fields. Raises `BadLineError`."""
    text = ""
    fields: list[CharSpan] = []
    after_field = False
    for item in record.content:
        piece = XML_BLANKS.sub(" ", _piece(item, text))
        is_field = isinstance(item, Element) and bool(piece.strip())
        if is_field and after_field and _parted(text, piece):
            text += " "
        if not text or text.endswith(" "):
            piece = piece.removeprefix(" ")
        if is_field and isinstance(item, Element):
            label = _label(item, settings.attributes)
            start, end = len(text) + len(piece) - len(piece.lstrip()), len(text) + len(piece.rstrip())
            fields.append(CharSpan(start, end, label, item.line))
        text += piece
        after_field = is_field or (after_field and not piece)
    if not fields:
        raise BadLineError(f"no field in <{record.name}>; take it out")
    return _RecordText(text.rstrip(), fields, record.line)


def _parted(text: str, piece: str) -> bool:
    """Are two elements without a blank between them two words all the same?"""
    return piece[:1].isalnum() and text[-1:] not in JOINS and not text[-1:].isspace()


def _text(element: Element) -> str:
    """The text of an element, in which those inside that follow each other at once have a blank between them."""
    text = ""
    after_element = False
    for item in element.content:
        piece = _piece(item, text)
        is_element = isinstance(item, Element) and bool(piece.strip())
        text += f" {piece}" if is_element and after_element and _parted(text, piece) else piece
        after_element = is_element or (after_element and not piece)
    return text


def _piece(item: Element | str, before: str) -> str:
    """The text of what an element holds; where a line begins, a blank, unless a word goes on there."""
    if isinstance(item, str):
        return item
    parts_words = item.name in MILESTONES and item.attributes.get("break") != "no" and not before.endswith(JOINS)
    return " " if parts_words and not item.content else _text(item)


def _label(field: Element, attributes: Sequence[str]) -> str:
    """The element's name, with the value of each chosen attribute that it has after a slash."""
    values = [field.attributes[name] for name in attributes if field.attributes.get(name, "").strip()]
    return "/".join([field.name, *("-".join(value.split()) for value in values)])


def _told(records: Sequence[Element], record: str, settings: XmlSettings) -> str:
    """What was taken as record and as fields, and which attributes tell fields apart that have one label."""
    fields = [child for element in records for child in element.elements if child.text.strip()]
    names = ", ".join(dict.fromkeys(_label(child, settings.attributes) for child in fields))
    line = f"records are <{record}>, and the labels of their fields {names}"
    telling = [
        n for n in TELLING_ATTRIBUTES if n not in settings.attributes and any(n in child.attributes for child in fields)
    ]
    return line + (f"; --set attributes={','.join(telling)} makes labels of these too" if telling else "")


def _is_xml(text: str) -> bool:
    """Is it one element with others inside, as far as it goes?"""
    if not text.lstrip().startswith("<"):
        return False
    depth = deepest = 0

    def start(_: str, __: dict[str, str]) -> None:
        nonlocal depth, deepest
        depth += 1
        deepest = max(deepest, depth)

    def end(_: str) -> None:
        nonlocal depth
        depth -= 1

    parser = expat.ParserCreate("utf-8")
    parser.StartElementHandler, parser.EndElementHandler = start, end
    try:
        parser.Parse(text.lstrip().encode(), False)  # noqa: FBT003 — expat takes no keywords
    except expat.ExpatError:
        return text.lstrip().startswith("<?xml")
    return deepest > 1 or text.lstrip().startswith("<?xml")


XML_READER = ReaderEntry(
    read_xml,
    XmlSettings,
    "records of tagged fields in XML: AnyStyle, GROBID's TEI, parserator",
    forms=(SourceForm("XML", 180, in_text(_is_xml)),),
    suffixes=(".xml",),
)
