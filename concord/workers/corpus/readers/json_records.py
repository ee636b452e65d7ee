"""JSON files of records: a record a line, records one after the other, or an array of them, each with its line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from concord.workers.corpus.readers.lines import Line, file_lines, line_text
from concord.workers.corpus.readers.reader import BadLineError, UndecodableError, decoded

LINE_SUFFIXES = (".jsonl", ".ndjson")
BLANK = re.compile(r"[\s,]*")
LARGEST_DEPTH = "nested too deeply to be read"


class JsonRecord(NamedTuple):
    """A value of a JSON file, which starts in ``line`` (from 1), or the ``fault`` that stands there."""

    line: int
    value: Any = None
    fault: str = ""


def json_records(path: Path, encoding: str) -> Iterator[JsonRecord]:
    """The records of a file, in its order; where one cannot be read, those after it are, if they begin a line."""
    if path.suffix.lower() in LINE_SUFFIXES:
        lines = (line for line in file_lines(path) if line.content.strip())
        return (_of_line(line, encoding) for line in lines)
    raw = path.read_bytes()
    try:
        text = decoded(raw, encoding).removeprefix("\ufeff")
    except UndecodableError as error:
        line = raw.count(b"\n", 0, error.at) + 1
        return iter([JsonRecord(line, fault=f"line {line}: {error}")])
    return _records(text)


def _of_line(line: Line, encoding: str) -> JsonRecord:
    try:
        return JsonRecord(line.number, json.loads(line_text(line, encoding)))
    except BadLineError as error:
        return JsonRecord(line.number, fault=f"line {line.number}: {error}")
    except json.JSONDecodeError as error:
        return JsonRecord(line.number, fault=f"line {line.number}: no JSON at character {error.pos} ({error.msg})")
    except (RecursionError, ValueError):
        return JsonRecord(line.number, fault=f"line {line.number}: {LARGEST_DEPTH}")


def _records(text: str) -> Iterator[JsonRecord]:
    """The values of a text; the elements of an array on top are values of their own."""
    at, line = _blanks(text, 0), 1
    line += text.count("\n", 0, at)
    if _array_of_records(text, at):
        at += 1
    decoder = json.JSONDecoder()
    while (start := _blanks(text, at)) < len(text) and text[start] != "]":
        line += text.count("\n", at, start)
        try:
            value, at = decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            wrong = line + text.count("\n", start, error.pos)
            yield JsonRecord(line, fault=f"line {wrong}: no JSON ({error.msg})")
            at = text.find("\n{", start + 1)
            if at < 0:
                return
            line += text.count("\n", start, at)
            continue
        except (RecursionError, ValueError):
            yield JsonRecord(line, fault=f"line {line}: {LARGEST_DEPTH}")
            return
        yield JsonRecord(line, value)
        line += text.count("\n", start, at)


def _array_of_records(text: str, at: int) -> bool:
    """Is the value at a place an array of records, and no record of the form ``["text", {...}]`` itself?"""
    return text[at : at + 1] == "[" and text[_blanks(text, at + 1) :][:1] in ("{", "[", "]")


def _blanks(text: str, at: int) -> int:
    """The first character from a place on that is no blank and no comma."""
    found = BLANK.match(text, at)
    return at if found is None else found.end()
