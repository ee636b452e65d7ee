"""YAML files, read with the line of every part for messages about mistakes.

All scalars are read as plain strings, so that a label called ``no`` or a time like ``3:30`` keeps its spelling.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from concord.schemas.errors import InputError
from concord.schemas.names import nearest
from concord.schemas.secrets import place_of
from concord.workers.storage.storage import file_bytes

MOST_FILE_BYTES = 10_000_000
MOST_REPEATED = 10_000
"""Values that aliases may repeat, in a whole file."""

LONGEST_SHOWN = 80
"""Number of characters of a value that messages repeat."""

NO_TEXT = re.compile("[\0\ud800-\udfff]")
"""Characters that YAML can write with escapes, but that neither Arrow nor a terminal accepts."""

LISTS = frozenset({"tuple_type", "list_type"})
"""What pydantic calls mistakes where a list is wanted."""

Location = tuple[int | str, ...]
"""Keys and places that lead to a part of a file."""

S = TypeVar("S", bound=BaseModel)


def read_text(path: str | Path, error: type[InputError]) -> str:
    """The text of a file at a path or a URI. Raises ``error``, which names the line, and `OSError`."""
    data, place = file_bytes(path, MOST_FILE_BYTES + 1), place_of(str(path))
    if len(data) > MOST_FILE_BYTES:
        raise error(f"{place}:1: more than {MOST_FILE_BYTES:,} bytes; cut it into several files")
    try:
        return data.decode()
    except UnicodeDecodeError as fault:
        line = data.count(b"\n", 0, fault.start) + 1
        raise error(f"{place}:{line}: not UTF-8 (byte {fault.start} of the file); save it as UTF-8") from None


class LinedYaml:
    """Converter of YAML nodes into strings, lists and dicts, which notes the line of every part."""

    def __init__(self, file: str, kind: type[InputError]) -> None:
        """``file``: its name for messages; ``kind``: class of the errors."""
        self.file = file
        self._kind = kind
        self._seen: set[int] = set()
        self._around: set[int] = set()
        self._repeated = 0

    def composed(self, text: str) -> yaml.Node | None:
        """The root of a YAML tree; None for an empty text. Raises the reader's kind of error."""
        try:
            return yaml.compose(text, Loader=yaml.BaseLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            raise self._kind(f"{self.file}:{mark.line + 1 if mark else 1}: not YAML: {error.problem}") from None
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            raise self._kind(f"{self.file}:{line}: not YAML: character {error.character!r} is not allowed") from None
        except RecursionError:
            raise self._kind(f"{self.file}:1: brackets inside brackets beyond all measure") from None

    def error(self, node: yaml.Node, what: str) -> InputError:
        """The error of a mistake at a node."""
        return self._kind(f"{self.file}:{_line(node)}: {what}")

    def key(self, node: yaml.Node) -> str:
        """The name in a key. Raises the reader's kind of error if it is a list or a mapping."""
        if not isinstance(node, yaml.ScalarNode):
            raise self.error(node, "a key is a plain name, not a list or a mapping")
        return self._text(node)

    def plain(self, node: yaml.Node, place: Location, lines: dict[Location, int]) -> Any:
        """The content of a node; its lines are written to ``lines``. Raises the reader's kind of error."""
        lines[place] = _line(node)
        if isinstance(node, yaml.ScalarNode):
            self._count(node)
            return self._text(node)
        if id(node) in self._around:
            raise self.error(node, "an alias inside of what it stands for")
        self._count(node)
        self._around.add(id(node))
        content = (
            self._list(node, place, lines) if isinstance(node, yaml.SequenceNode) else self._dict(node, place, lines)
        )
        self._around.remove(id(node))
        return content

    def _list(self, node: yaml.Node, place: Location, lines: dict[Location, int]) -> list[Any]:
        return [self.plain(item, (*place, i), lines) for i, item in enumerate(node.value)]

    def _dict(self, node: yaml.Node, place: Location, lines: dict[Location, int]) -> dict[str, Any]:
        content: dict[str, Any] = {}
        for key, value in node.value:
            name = self.key(key)
            if name in content:
                raise self.error(key, f"key {excerpt(name)} twice in one entry")
            content[name] = self.plain(value, (*place, name), lines)
            lines[(*place, name)] = _line(key)
        return content

    def _count(self, node: yaml.Node) -> None:
        """Counts repeated values, so that aliases inside aliases cannot grow without end.

        Raises the reader's kind of error for more than `MOST_REPEATED`.
        """
        self._repeated += id(node) in self._seen
        self._seen.add(id(node))
        if self._repeated > MOST_REPEATED:
            raise self.error(node, f"aliases stand for more than {MOST_REPEATED:,} values; write them out")

    def _text(self, node: yaml.Node) -> str:
        text = str(node.value)
        if NO_TEXT.search(text):
            raise self.error(node, f"{excerpt(text)} holds a character that is no text")
        return text


def read_lined(path: Path, settings: type[S], kind: type[InputError], *, keys: str) -> tuple[S, Mapping[Location, int]]:
    """Content of a file, and the line of every part; ``keys``: names that messages propose for unknown keys.

    Raises an error of the given kind with a line for each mistake, and `OSError` if the file cannot be read.
    """
    content, lines = read_content(path, kind, keys=keys)
    try:
        return settings.model_validate(content), lines
    except ValidationError as error:
        raise kind(mistakes_told(path, lines, problems(error, settings))) from None


def read_content(path: Path, kind: type[InputError], *, keys: str) -> tuple[dict[str, Any], Mapping[Location, int]]:
    """The same as it is written, before any settings are made of it. Raises as `read_lined`."""
    lines: dict[Location, int] = {}
    reader = LinedYaml(str(path), kind)
    root = reader.composed(read_text(path, kind))
    if root is None:
        raise kind(f"{path}:1: empty; want {keys}")
    content = reader.plain(root, (), lines)
    if not isinstance(content, dict):
        raise kind(f"{path}:1: want keys such as {keys}")
    return content, lines


def mistakes_told(path: Path, lines: Mapping[Location, int], mistakes: Iterable[tuple[Location, str]]) -> str:
    """Text with a line ``file:line: mistake`` for each mistake, by its place in the file."""
    return "\n".join(f"{path}:{_line_around(lines, place)}: {what}" for place, what in mistakes)


def _line_around(lines: Mapping[Location, int], place: Location) -> int:
    """Line of the innermost part around a place that the file has."""
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place, 1)


def excerpt(value: object) -> str:
    """A value of the file as a message repeats it: on one line, and cut if it is long."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…"


def problems(error: ValidationError, settings: type[BaseModel]) -> Iterator[tuple[Location, str]]:
    """Place and message, for people, of each mistake that pydantic found."""
    for detail in error.errors():
        place = detail["loc"]
        field = ".".join(str(part) for part in place)
        if detail["type"] == "extra_forbidden":
            among = _fields_around(settings, place)
            yield place, f"unknown key {excerpt(field)}{nearest(str(place[-1]), among)}"
        elif detail["type"] == "missing":
            yield place, f"key {field!r} is missing"
        elif detail["type"] in LISTS and isinstance(detail["input"], str):
            yield place, f"{field}: want a list, such as [{detail['input']}]"
        elif isinstance(detail["input"], list) and detail["type"].endswith(("_type", "_parsing")):
            yield place, f"{field}: want one value, not a list (given: {_text_of(detail['input'])})"
        else:
            input_text = "" if isinstance(detail["input"], dict) else f" (given: {_text_of(detail['input'])})"
            yield place, f"{field + ': ' if field else ''}{detail['msg'].removeprefix('Value error, ')}{input_text}"


def _text_of(value: object) -> str:
    text = str(value)
    return text if text.isprintable() and len(text) <= LONGEST_SHOWN else excerpt(value)


def _fields_around(settings: type[BaseModel], place: Location) -> list[str]:
    """Fields of the settings class to which the last key of ``place`` belongs; none where it belongs to no class."""
    around: Any = settings
    for part in place[:-1]:
        around = _type_of(part, _without_none(around))
    return list(getattr(_without_none(around), "model_fields", ()))


def _type_of(part: int | str, around: Any) -> Any:
    """Type of what stands under a key: a class has it for each field, a mapping or a list one for all that it holds."""
    if hasattr(around, "model_fields"):
        return around.model_fields[part].annotation if part in around.model_fields else None
    held = [argument for argument in get_args(around) if argument is not Ellipsis]
    return held[-1] if held else None


def _without_none(annotation: Any) -> Any:
    """The type itself of one that may be None, and the first of a choice of types."""
    is_choice = isinstance(annotation, UnionType) or get_origin(annotation) is Union
    return next(a for a in get_args(annotation) if a is not type(None)) if is_choice else annotation


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
