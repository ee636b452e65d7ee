"""Constraint files: YAML with one list of entries; every mistake is reported with its line.

    constraints:
      - template: starts_with
        labels: [author, editor]
        weight: hard
      - template: lexicon
        name: report words
        words: [tech, technical]
        labels: tech
        weight: 2.5

``template`` is a key of `TEMPLATES`, the other keys are its fields; ``weight`` is ``hard`` or nats. All scalars are
read as plain strings first, so that a label ``no`` or a time like ``3:30`` stays as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from concord.schemas.names import nearest
from concord.workers.constraints.declared import DeclaredConstraints, Origin
from concord.workers.constraints.patterns import LONGEST_SHOWN
from concord.workers.constraints.rows import ConstraintError
from concord.workers.constraints.templates.registry import TEMPLATES
from concord.workers.constraints.templates.template import Location, Template
from concord.workers.storage.files import naming

ROOT = "constraints"

MOST_FILE_BYTES = 10_000_000
MOST_REPEATED = 10_000
"""Most values that aliases may repeat in a whole file."""

NO_TEXT = re.compile("[\0\ud800-\udfff]")
"""Characters that YAML can write as escapes, but that neither Arrow nor a terminal can take."""


class ConstraintFileError(ConstraintError):
    """A file that declares no usable constraints; the message has one line for each mistake, as file:line: mistake."""


def load_constraints(path: Path | str) -> DeclaredConstraints:
    """The constraints of a YAML file.

    Raises `ConstraintFileError` with file, line, entry and nearest right name of every mistake, and `OSError` if the
    file cannot be read. Labels are checked by `DeclaredConstraints.bind`, once a label set is known.
    """
    with naming(Path(path)), Path(path).open("rb") as file:
        data = file.read(MOST_FILE_BYTES + 1)
    if len(data) > MOST_FILE_BYTES:
        raise ConstraintFileError(
            f"{path}:1: more than {MOST_FILE_BYTES:,} bytes; put the constraints into several files"
        )
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConstraintFileError(
            f"{path}:{line}: not UTF-8 (byte {error.start} of the file); save it as UTF-8"
        ) from None
    return parse_constraints(text, file=str(path))


def parse_constraints(text: str, *, file: str) -> DeclaredConstraints:
    """The constraints of a YAML text; ``file`` is for messages. Raises `ConstraintFileError`."""
    templates: list[Template] = []
    origins: list[Origin] = []
    problems: list[str] = []
    reader = _Reader(file)
    for number, node in enumerate(_entries(text, reader), start=1):
        lines: dict[Location, int] = {}
        try:
            content = reader.plain(node, (), lines)
            templates.append(_template(content, Origin(file, number, lines)))
            origins.append(Origin(file, number, lines))
        except ConstraintFileError as error:
            problems.append(str(error))
    if problems:
        raise ConstraintFileError("\n".join(problems))
    return DeclaredConstraints(tuple(templates), tuple(origins))


def _entries(text: str, reader: _Reader) -> Sequence[yaml.Node]:
    root = _composed(text, reader.file)
    if root is None:
        raise ConstraintFileError(f"{reader.file}:1: empty; want a list under {ROOT!r}")
    if not isinstance(root, yaml.MappingNode):
        raise reader.error(root, f"want a list under {ROOT!r}: write '{ROOT}:' above the entries")
    found: Sequence[yaml.Node] | None = None
    for key, value in root.value:
        name = reader.key(key)
        if name != ROOT:
            raise reader.error(key, f"unknown key {shown(name)}{nearest(name, [ROOT])}")
        if found is not None:
            raise reader.error(key, f"key {ROOT!r} is there twice; put all entries under one")
        if not isinstance(value, yaml.SequenceNode):
            raise reader.error(value, f"{ROOT!r} is no list; start each entry with '- '")
        found = value.value
    return found or ()


def _composed(text: str, file: str) -> yaml.Node | None:
    """The root of the YAML tree, or None for an empty text."""
    try:
        return yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise ConstraintFileError(f"{file}:{mark.line + 1 if mark else 1}: not YAML: {error.problem}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConstraintFileError(f"{file}:{line}: not YAML: character {error.character!r} is not allowed") from None
    except RecursionError:
        raise ConstraintFileError(f"{file}:1: brackets inside brackets beyond all measure") from None


def shown(value: object) -> str:
    """A value of the file as a message repeats it: on one line, and cut if it is long."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…"


class _Reader:
    """Converter of YAML nodes into strings, lists and dicts, which notes the line of every part."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._seen: set[int] = set()
        self._around: set[int] = set()
        self._repeated = 0

    def error(self, node: yaml.Node, what: str) -> ConstraintFileError:
        """The error of a mistake at a node."""
        return ConstraintFileError(f"{self.file}:{_line(node)}: {what}")

    def key(self, node: yaml.Node) -> str:
        """The name in a key. Raises `ConstraintFileError` if it is a list or a mapping."""
        if not isinstance(node, yaml.ScalarNode):
            raise self.error(node, "a key is a plain name, not a list or a mapping")
        return self._text(node)

    def plain(self, node: yaml.Node, place: Location, lines: dict[Location, int]) -> Any:
        """The content of a node; its lines are written to ``lines``. Raises `ConstraintFileError`."""
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
                raise self.error(key, f"key {shown(name)} twice in one entry")
            content[name] = self.plain(value, (*place, name), lines)
            lines[(*place, name)] = _line(key)
        return content

    def _count(self, node: yaml.Node) -> None:
        """Counts repeated values, so that aliases inside aliases cannot grow without end.

        Raises `ConstraintFileError` for more than `MOST_REPEATED`.
        """
        self._repeated += id(node) in self._seen
        self._seen.add(id(node))
        if self._repeated > MOST_REPEATED:
            raise self.error(node, f"aliases stand for more than {MOST_REPEATED:,} values; write them out")

    def _text(self, node: yaml.Node) -> str:
        text = str(node.value)
        if NO_TEXT.search(text):
            raise self.error(node, f"{shown(text)} holds a character that is no text")
        return text


def _template(content: Any, origin: Origin) -> Template:
    if not isinstance(content, dict) or not isinstance(content.get("template"), str):
        raise ConstraintFileError(f"{origin.at((), '?')}: want 'template:' and its keys")
    kind = content.pop("template")
    if kind not in TEMPLATES:
        raise ConstraintFileError(
            f"{origin.at(('template',), '?')}: unknown template {shown(kind)}{nearest(kind, TEMPLATES)}"
        )
    try:
        return TEMPLATES[kind].model_validate(content)
    except ValidationError as error:
        problems = _problems(error, TEMPLATES[kind])
        raise ConstraintFileError("\n".join(f"{origin.at(at, kind)}: {what}" for at, what in problems)) from None


def _problems(error: ValidationError, template: type[Template]) -> Iterator[tuple[Location, str]]:
    for detail in error.errors():
        place = detail["loc"]
        field = ".".join(str(part) for part in place)
        if detail["type"] == "extra_forbidden":
            among = _fields_around(template, place)
            yield place, f"unknown key {shown(field)}{nearest(str(place[-1]), among)}"
        elif detail["type"] == "missing":
            yield place, f"key {field!r} is missing"
        else:
            given = "" if isinstance(detail["input"], dict) else f" (given: {_given(detail['input'])})"
            yield place, f"{field + ': ' if field else ''}{detail['msg'].removeprefix('Value error, ')}{given}"


def _given(value: object) -> str:
    text = str(value)
    return text if text.isprintable() and len(text) <= LONGEST_SHOWN else shown(value)


def _fields_around(template: type[Template], place: Location) -> list[str]:
    """Fields of the settings class to which the last key of ``place`` belongs."""
    inner: Any = template
    for part in place[:-1]:
        if isinstance(part, int):
            continue
        inner = next(_classes(inner.model_fields[part].annotation))
    return list(inner.model_fields)


def _classes(annotation: Any) -> Iterator[Any]:
    if hasattr(annotation, "model_fields"):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _classes(argument)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
