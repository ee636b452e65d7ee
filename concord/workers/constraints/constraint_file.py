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

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from concord.schemas.names import nearest
from concord.schemas.secrets import place_of
from concord.workers.constraints.declared import DeclaredConstraints, Origin
from concord.workers.constraints.rows import ConstraintError
from concord.workers.constraints.templates.registry import TEMPLATES
from concord.workers.constraints.templates.template import Template
from concord.workers.storage.lined_yaml import LinedYaml, Location, excerpt, problems, read_text

ROOT_KEY = "constraints"


class ConstraintFileError(ConstraintError):
    """A file that declares no usable constraints; the message has one line for each mistake, as file:line: mistake."""


def load_constraints(path: Path | str) -> DeclaredConstraints:
    """The constraints of a YAML file at a path or a URI.

    Raises `ConstraintFileError` with file, line, entry and nearest right name of every mistake, and `OSError` if the
    file cannot be read. Labels are checked by `DeclaredConstraints.bind`, once a label set is known.
    """
    text = read_text(path, ConstraintFileError)
    return parse_constraints(text, file=place_of(str(path)))


def parse_constraints(text: str, *, file: str) -> DeclaredConstraints:
    """The constraints of a YAML text; ``file`` is for messages. Raises `ConstraintFileError`."""
    templates: list[Template] = []
    origins: list[Origin] = []
    mistakes: list[str] = []
    reader = LinedYaml(file, ConstraintFileError)
    for number, node in enumerate(_entries(text, reader), start=1):
        lines: dict[Location, int] = {}
        try:
            content = reader.plain(node, (), lines)
            templates.append(_template(content, Origin(file, number, lines)))
            origins.append(Origin(file, number, lines))
        except ConstraintFileError as error:
            mistakes.append(str(error))
    if mistakes:
        raise ConstraintFileError("\n".join(mistakes))
    return DeclaredConstraints(tuple(templates), tuple(origins))


def _entries(text: str, reader: LinedYaml) -> Sequence[yaml.Node]:
    root = reader.composed(text)
    if root is None:
        raise ConstraintFileError(f"{reader.file}:1: empty; want a list under {ROOT_KEY!r}")
    if not isinstance(root, yaml.MappingNode):
        raise reader.error(root, f"want a list under {ROOT_KEY!r}: write '{ROOT_KEY}:' above the entries")
    entries: Sequence[yaml.Node] | None = None
    for key, value in root.value:
        name = reader.key(key)
        if name != ROOT_KEY:
            raise reader.error(key, f"unknown key {excerpt(name)}{nearest(name, [ROOT_KEY])}")
        if entries is not None:
            raise reader.error(key, f"key {ROOT_KEY!r} is there twice; put all entries under one")
        if not isinstance(value, yaml.SequenceNode):
            raise reader.error(value, f"{ROOT_KEY!r} is no list; start each entry with '- '")
        entries = value.value
    return entries or ()


def _template(content: Any, origin: Origin) -> Template:
    if not isinstance(content, dict) or not isinstance(content.get("template"), str):
        raise ConstraintFileError(f"{origin.at((), '?')}: want 'template:' and its keys")
    kind = content.pop("template")
    if kind not in TEMPLATES:
        raise ConstraintFileError(
            f"{origin.at(('template',), '?')}: unknown template {excerpt(kind)}{nearest(kind, TEMPLATES)}"
        )
    try:
        return TEMPLATES[kind].model_validate(content)
    except ValidationError as error:
        faults = problems(error, TEMPLATES[kind])
        raise ConstraintFileError("\n".join(f"{origin.at(at, kind)}: {what}" for at, what in faults)) from None
