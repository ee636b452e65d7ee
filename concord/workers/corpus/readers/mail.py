"""Mails with inline tags, one document a file: the form of Freitag's (1998) seminar announcements.

``<speaker>A. Name</speaker>`` marks a span. Tags of paragraphs and sentences are removed, since they may cross the
others. Other words between ``<`` and ``>`` are text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from concord.schemas.columns import Misfit, Reject
from concord.schemas.document import Document
from concord.workers.corpus.readers.lines import id_prefix
from concord.workers.corpus.readers.reader import (
    EMPTY_FILE,
    BadLineError,
    ReaderEntry,
    SourceForm,
    in_text,
    source_files,
)
from concord.workers.corpus.readers.spans import CharSpan, marked_document
from concord.workers.corpus.readers.text import text_of_bytes
from concord.workers.corpus.settings import MailSettings

MAIL_TAG = re.compile(r"<(/?)(stime|etime|speaker|location|paragraph|sentence)>")
LINE_END = re.compile(r"\n")
SENTENCE = "sentence"
DROPPED = ("paragraph", SENTENCE)


class _Tag(NamedTuple):
    """A tag: the character of the text without tags before which it stands, and its line."""

    kind: str
    closes: bool
    at: int
    line: int


class _Mail(NamedTuple):
    """A mail without its tags; ``opened`` and ``closed`` are the characters where tagged sentences start and end."""

    text: str
    spans: list[CharSpan]
    opened: list[int]
    closed: list[int]


def read_mail(source: str, settings: MailSettings) -> Iterator[Document | Reject | Misfit]:
    """Documents of a file or of all files of a folder, named as the files, with text and character offsets."""
    files = source_files(source)
    for path, name in files:
        yield from _read(path, id_prefix(name, settings.prefix, alone=len(files) == 1), settings)


def _read(path: Path, doc_id: str, settings: MailSettings) -> Iterator[Document | Reject | Misfit]:
    tagged = text_of_bytes(path.read_bytes(), str(path), doc_id, settings.encoding)
    if isinstance(tagged, Reject):
        yield tagged
        return
    try:
        mail = _parsed(tagged)
    except _TagError as error:
        yield Reject(str(path), error.line, doc_id, str(error))
        return
    if not mail.text.strip():
        yield Reject(str(path), None, doc_id, EMPTY_FILE)
        return
    document, faults = marked_document(doc_id, mail.text, mail.spans, settings, breaks=_breaks(mail, settings))
    yield document
    for span, reason in faults:
        yield Misfit(str(path), span.line, doc_id, reason)


class _TagError(BadLineError):
    """A tag cannot be read; carries the reason and the line (from 1)."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(f"line {line}: {reason}; mend the tags of this mail")
        self.line = line


def _breaks(mail: _Mail, settings: MailSettings) -> list[int]:
    """Characters at which sentences start, by the settings' rule.

    The rest of the line in which a tagged sentence ends, often its full stop, belongs to that sentence.
    """
    if settings.sentences == "mail":
        return []
    lines = [found.end() for found in LINE_END.finditer(mail.text)]
    if settings.sentences == "lines":
        return lines
    return [*mail.opened, *(lines[at] for close in mail.closed if (at := bisect_left(lines, close)) < len(lines))]


def _parsed(tagged: str) -> _Mail:
    """Raises `_TagError` for a span that is not opened or not closed, or inside one of its kind."""
    text, tags = _tags(tagged)
    sentences = [tag for tag in tags if tag.kind == SENTENCE]
    opened = [tag.at for tag in sentences if not tag.closes]
    closed = [tag.at for tag in sentences if tag.closes]
    return _Mail(text, _spans([tag for tag in tags if tag.kind not in DROPPED]), opened, closed)


def _tags(tagged: str) -> tuple[str, list[_Tag]]:
    """The text without its tags, and the tags."""
    first, *rest = MAIL_TAG.split(tagged)
    pieces, tags = [first], []
    at, line = len(first), 1 + first.count("\n")
    for slash, kind, piece in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        tags.append(_Tag(kind, bool(slash), at, line))
        pieces.append(piece)
        at, line = at + len(piece), line + piece.count("\n")
    return "".join(pieces), tags


def _spans(tags: Sequence[_Tag]) -> list[CharSpan]:
    spans: list[CharSpan] = []
    opened: dict[str, _Tag] = {}
    for tag in tags:
        start = opened.pop(tag.kind, None)
        if start is None and tag.closes:
            raise _TagError(f"</{tag.kind}> closes nothing", tag.line)
        if start is not None and not tag.closes:
            raise _TagError(f"<{tag.kind}> inside another of its kind", tag.line)
        if start is None:
            opened[tag.kind] = tag
        else:
            spans.append(CharSpan(start.at, tag.at, tag.kind, start.line))
    for tag in opened.values():
        raise _TagError(f"<{tag.kind}> is not closed", tag.line)
    return spans


def _is_mail(text: str) -> bool:
    return re.search(r"</(stime|etime|speaker|location|sentence|paragraph)>", text) is not None


MAIL_READER = ReaderEntry(
    read_mail,
    MailSettings,
    "mails with inline tags: stime, etime, speaker, location",
    forms=(SourceForm("mails with inline tags", 240, in_text(_is_mail)),),
    finds="tag of a time, a speaker or a location",
)
