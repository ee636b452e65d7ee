"""Constraint files: YAML, one list of entries, every mistake told with its line.

    constraints:
      - template: starts_with
        labels: [author, editor]
        weight: hard
      - template: lexicon
        name: report words
        words: [tech, technical]
        labels: tech
        weight: 2.5

``template`` is a key of `TEMPLATES`, the other keys are its fields; ``weight`` is ``hard`` or nats.
All scalars are read as plain strings first, so that a label called ``no`` or a time like ``3:30``
stays what it looks like.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from workers.constraints.declared import DeclaredConstraints, Origin
from workers.constraints.rows import ConstraintError
from workers.constraints.template import Location, Template, nearest
from workers.constraints.templates import TEMPLATES

ROOT = "constraints"


class ConstraintFileError(ConstraintError):
    """A file that declares no usable constraints; the message has one line a mistake: file:line: what."""


def load_constraints(path: Path | str) -> DeclaredConstraints:
    """The constraints of a YAML file.

    Raises `ConstraintFileError` with every mistake's file, line and entry and the nearest right
    name, and `OSError` where the file cannot be read. Labels are checked by
    `DeclaredConstraints.bind`, once a label set is known.
    """
    return parse_constraints(Path(path).read_text(encoding="utf-8"), file=str(path))


def parse_constraints(text: str, *, file: str) -> DeclaredConstraints:
    """The constraints of a YAML text; ``file`` is for messages. Raises `ConstraintFileError`."""
    templates: list[Template] = []
    origins: list[Origin] = []
    problems: list[str] = []
    for number, node in enumerate(_entries(text, file), start=1):
        lines: dict[Location, int] = {}
        try:
            content = _plain(node, (), lines, file)
            templates.append(_template(content, Origin(file, number, lines)))
            origins.append(Origin(file, number, lines))
        except ConstraintFileError as error:
            problems.append(str(error))
    if problems:
        raise ConstraintFileError("\n".join(problems))
    return DeclaredConstraints(tuple(templates), tuple(origins))


def _entries(text: str, file: str) -> Sequence[yaml.Node]:
    try:
        root = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise ConstraintFileError(f"{file}:{mark.line + 1 if mark else 1}: not YAML: {error.problem}") from None
    if root is None:
        raise ConstraintFileError(f"{file}:1: empty; want a list under {ROOT!r}")
    if not isinstance(root, yaml.MappingNode):
        raise ConstraintFileError(f"{file}:{_line(root)}: want a list under {ROOT!r}")
    found: Sequence[yaml.Node] = []
    for key, value in root.value:
        if key.value != ROOT:
            raise ConstraintFileError(f"{file}:{_line(key)}: unknown key {key.value!r}{nearest(key.value, [ROOT])}")
        if not isinstance(value, yaml.SequenceNode):
            raise ConstraintFileError(f"{file}:{_line(value)}: {ROOT!r} is no list; start each entry with '- '")
        found = value.value
    return found


def _plain(node: yaml.Node, place: Location, lines: dict[Location, int], file: str) -> Any:
    """A node as strings, lists and dicts; notes the line of every part."""
    lines[place] = _line(node)
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, (*place, i), lines, file) for i, item in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        return node.value
    content: dict[str, Any] = {}
    for key, value in node.value:
        if key.value in content:
            raise ConstraintFileError(f"{file}:{_line(key)}: key {key.value!r} twice in one entry")
        content[key.value] = _plain(value, (*place, key.value), lines, file)
        lines[(*place, key.value)] = _line(key)
    return content


def _template(content: Any, origin: Origin) -> Template:
    if not isinstance(content, dict) or not isinstance(content.get("template"), str):
        raise ConstraintFileError(f"{origin.at((), '?')}: want 'template:' and its keys")
    kind = content.pop("template")
    if kind not in TEMPLATES:
        raise ConstraintFileError(
            f"{origin.at(('template',), '?')}: unknown template {kind!r}{nearest(kind, TEMPLATES)}"
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
            yield place, f"unknown key {field!r}{nearest(str(place[-1]), among)}"
        elif detail["type"] == "missing":
            yield place, f"key {field!r} is missing"
        else:
            given = "" if isinstance(detail["input"], dict) else f" (given: {detail['input']})"
            yield place, f"{field + ': ' if field else ''}{detail['msg'].removeprefix('Value error, ')}{given}"


def _fields_around(template: type[Template], place: Location) -> list[str]:
    """Fields of the settings class that the last key of ``place`` stands in."""
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
