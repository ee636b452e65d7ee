"""A reader: ``word|label`` a line, a blank line after each document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from concord.parts import (
    BadLineError,
    Document,
    FileEncoding,
    Line,
    ReaderEntry,
    ReaderSettings,
    Reject,
    SourceForm,
    in_text,
    line_groups,
    line_text,
    or_nothing,
    source_files,
)


class PipeSettings(ReaderSettings):
    """How the files are read."""

    encoding: FileEncoding = "utf-8"


def read_pipes(source: str, settings: PipeSettings) -> Iterator[Document | Reject]:
    """Documents ``a.txt-1``, ... of a file or of all files of a folder, one sentence each."""
    for path, name in source_files(source):
        groups = enumerate(line_groups(path), 1)
        yield from or_nothing(path, (_document(path, f"{name}-{n}", lines, settings) for n, lines in groups))


def _document(path: Path, doc_id: str, lines: Sequence[Line], settings: PipeSettings) -> Document | Reject:
    words, labels = list[str](), list[str]()
    for line in lines:
        try:
            word, label = _pair(line_text(line, settings.encoding))
        except BadLineError as error:
            return Reject(str(path), line.number, doc_id, f"line {line.number}: {error}")
        words.append(word)
        labels.append(label)
    return Document.build(doc_id, [words], labels=[labels])


def _pair(line: str) -> tuple[str, str]:
    parts = line.split("|")
    if len(parts) != 2 or not all(map(str.strip, parts)):
        raise BadLineError(f"want a word, a bar and its label, not {line!r}")
    return parts[0].strip(), parts[1].strip()


def _is_pipes(text: str) -> bool:
    lines = [line for line in text.splitlines() if line.strip()]
    return all(line.count("|") == 1 and " " not in line for line in lines)


PIPES = ReaderEntry(
    read_pipes,
    PipeSettings,
    "a word, a bar and its label a line",
    forms=(SourceForm("lines of a word, a bar and its label", 255, in_text(_is_pipes)),),
)
