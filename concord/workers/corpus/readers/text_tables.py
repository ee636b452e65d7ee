"""Tables of raw texts that are no Parquet: CSV with a line of names, and JSON records."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from concord.schemas.columns import Reject
from concord.schemas.names import nearest
from concord.workers.corpus.readers.json_records import LINE_SUFFIXES, json_records
from concord.workers.corpus.readers.lines import LineFault, file_lines
from concord.workers.corpus.readers.reader import BadLineError, decoded
from concord.workers.corpus.settings import TextReaderSettings

CSV_SUFFIX = ".csv"
TABLE_SUFFIXES = (CSV_SUFFIX, *LINE_SUFFIXES, ".json")
DELIMITERS = (",", ";", "\t", "|")
LARGEST_FIELD = 1 << 30
"""Characters of the largest text in a CSV file; Python's own limit is 128 KiB."""


class TextRow(NamedTuple):
    """A text with its id, None where the table has none, and the line where it ends."""

    line: int
    doc_id: str | None
    text: str


def text_rows(path: Path, prefix: str, settings: TextReaderSettings) -> Iterator[TextRow | Reject]:
    """The texts of a table, and a reject for each row without one, or for a CSV file without such columns."""
    rows = _csv_rows if path.suffix.lower() == CSV_SUFFIX else _json_rows
    return rows(path, prefix, settings)


def _json_rows(path: Path, prefix: str, settings: TextReaderSettings) -> Iterator[TextRow | Reject]:
    for number, record in enumerate(json_records(path, settings.encoding), 1):
        value = record.value
        fault = record.fault or ("" if isinstance(value, dict) else f"line {record.line}: no object")
        if not fault and settings.text_column not in value:
            there = nearest(settings.text_column, list(value))
            fault = f"line {record.line}: no {settings.text_column!r}{there}; name the texts: --set text_column=NAME"
        yield _row(path, f"{prefix}-{number:04d}", record.line, fault, value, settings)


def _row(
    path: Path, placed: str, line: int, fault: str, value: Mapping[str, Any], settings: TextReaderSettings
) -> TextRow | Reject:
    """A row of a table; ``placed`` is the id of one that cannot be read."""
    text = None if fault else value[settings.text_column]
    if not fault and not isinstance(text, str):
        fault = f"line {line}: {settings.text_column!r} is {text!r:.40}, and no text"
    if fault or not isinstance(text, str):
        return Reject(str(path), line, placed, fault)
    return TextRow(line, _id(value, settings), text)


def _id(value: Mapping[str, Any], settings: TextReaderSettings) -> str | None:
    """The id of a row, of the column of ids or else of one that is called ``id``."""
    names = [settings.id_column] if "id_column" in settings.model_fields_set else [settings.id_column, "id"]
    found = next((value[name] for name in names if isinstance(value.get(name), str | int)), None)
    return None if found is None or not str(found).strip() else str(found)


class _Lines:
    """The lines of a file as text, for `csv`; one that cannot be decoded is empty, and its fault is kept."""

    def __init__(self, path: Path, encoding: str) -> None:
        self.lines, self.encoding = file_lines(path, ends=True), encoding
        self.fault: LineFault | None = None

    def __iter__(self) -> Iterator[str]:
        for line in self.lines:
            try:
                yield decoded(line.content, self.encoding, offset=line.offset)
            except BadLineError as error:
                self.fault = self.fault or LineFault(line.number, f"line {line.number}: {error}")
                yield "\n"

    def fault_since(self) -> LineFault | None:
        """The first fault in the lines since the last call."""
        fault, self.fault = self.fault, None
        return fault


def _csv_rows(path: Path, prefix: str, settings: TextReaderSettings) -> Iterator[TextRow | Reject]:
    csv.field_size_limit(LARGEST_FIELD)
    lines = _Lines(path, settings.encoding)
    rows = csv.reader(iter(lines), delimiter=settings.delimiter, strict=False)
    names: list[str] | None = None
    number = 0
    for row, reason in _rows(rows):
        fault = lines.fault_since() or (LineFault(rows.line_num, f"line {rows.line_num}: {reason}") if reason else None)
        if not any(cell.strip() for cell in row) and not fault:
            continue
        if names is None:
            reason = fault.reason if fault else _names_fault(row, settings)
            if reason:
                yield Reject(str(path), fault.line if fault else None, f"{prefix}-0000" if fault else None, reason)
                return
            names = row
            continue
        number += 1
        if fault is None and len(row) != len(names):
            wanted = f"{len(row)} columns, want {len(names)} ({', '.join(names)[:60]})"
            fault = LineFault(rows.line_num, f"line {rows.line_num}: {wanted}")
        line, reason = fault or LineFault(rows.line_num, "")
        yield _row(path, f"{prefix}-{number:04d}", line, reason, dict(zip(names, row, strict=False)), settings)


def _rows(rows: Any) -> Iterator[tuple[list[str], str]]:
    """The rows of a `csv` reader, each with the reason why it cannot be read; empty if it can."""
    while True:
        try:
            yield next(rows), ""
        except StopIteration:
            return
        except csv.Error as error:
            yield [], str(error)


def _names_fault(names: Sequence[str], settings: TextReaderSettings) -> str:
    """Why the columns of ids and texts are not among the names of columns; empty if they are."""
    for option, name in (("text_column", settings.text_column), ("id_column", settings.id_column)):
        if name in names or (option == "id_column" and option not in settings.model_fields_set):
            continue
        other = next((d for d in DELIMITERS if d != settings.delimiter and name in names[0].split(d)), None)
        shown = {"\t": "tab"}.get(other or "", other)
        remedy = f"--set delimiter={shown}" if other else f"name it with --set {option}=NAME"
        listed = ", ".join(names)
        return f"its first line has no column {name!r} (it has {listed[:80]}); {remedy}"
    return ""
