"""Files of labels in the order of a tagger's scores: a label a line, or the ``config.json`` of a Hugging Face model."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from concord.schemas.errors import InputError

UNNAMED = re.compile(r"LABEL_\d+")
"""Names that Hugging Face gives to labels whose names were not set."""
EACH_A_LINE = "give each label a line, in the order of the scores"


class LabelFileError(InputError):
    """A file from which no labels can be read; the message names it."""


def labels_in(path: Path) -> tuple[str, ...]:
    """The labels of a file, in the order of the scores. Raises `LabelFileError` and `OSError`."""
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise LabelFileError(f"{path}: is no text in UTF-8; give a file with a label a line") from error
    names = _json_labels(path, text) if text.lstrip()[:1] in ("{", "[") else _lines(path, text)
    if not names or len(set(names)) != len(names):
        fault = "a label is there twice" if names else "there is no label in it"
        raise LabelFileError(f"{path}: {fault}; {EACH_A_LINE}")
    if len(names) == 1:
        raise LabelFileError(f"{path}: {names[0]!r} is its only label, and a tagger has two at least; {EACH_A_LINE}")
    unnamed = [name for name in names if UNNAMED.fullmatch(name)]
    if unnamed:
        raise LabelFileError(
            f"{path}: {unnamed[0]!r} is a number and no name; write the names that the model was trained with"
        )
    return names


def _lines(path: Path, text: str) -> tuple[str, ...]:
    names = tuple(line.strip() for line in text.splitlines() if line.strip())
    if len(names) == 1 and len(re.split(r"[\s,;]+", names[0])) > 1:
        first = ", ".join(re.split(r"[\s,;]+", names[0])[:3])
        raise LabelFileError(f"{path}: all labels ({first}, ...) are on one line; {EACH_A_LINE}")
    return names


def _json_labels(path: Path, text: str) -> tuple[str, ...]:
    """Labels of a JSON list, or of a model's configuration by the number of each."""
    try:
        read: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        if text.lstrip().startswith("["):
            return _lines(path, text)  # a label such as [PAD] on the first line
        raise LabelFileError(f"{path}: is no JSON ({error}); {EACH_A_LINE}") from error
    if isinstance(read, list):
        return _strings(path, read)
    named = read.get("id2label")
    if isinstance(named, dict):
        return _numbered(path, named)
    if isinstance(read.get("label2id"), dict):
        return _numbered(path, {number: name for name, number in read["label2id"].items()})
    raise LabelFileError(f"{path}: has no id2label, which names the labels; {EACH_A_LINE}")


def _numbered(path: Path, named: dict[Any, Any]) -> tuple[str, ...]:
    """Labels in the order of their numbers, which are 0 to W − 1."""
    try:
        by_number = {int(number): name for number, name in named.items()}
    except (TypeError, ValueError) as error:
        raise LabelFileError(f"{path}: id2label has a key that is no number ({error})") from error
    if sorted(by_number) != list(range(len(named))):
        raise LabelFileError(f"{path}: id2label has the numbers {sorted(by_number)[:5]}..., want 0 to {len(named) - 1}")
    return _strings(path, [by_number[number] for number in range(len(named))])


def _strings(path: Path, names: list[Any]) -> tuple[str, ...]:
    strange = [name for name in names if not isinstance(name, str) or not name]
    if strange:
        raise LabelFileError(f"{path}: {strange[0]!r} is no name of a label; give strings")
    return tuple(names)
