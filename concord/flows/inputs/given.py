"""Settings as users give them: NAME=VALUE by ``--set``, or a mapping in a file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import yaml

from concord.schemas.errors import UsageError


class FromFile(str):
    """NAME=VALUE in the form of ``--set``, from the file ``place``."""

    place: str

    def __new__(cls, pair: str, place: str) -> Self:
        """The text, with the file that it comes from."""
        made = super().__new__(cls, pair)
        made.place = place
        return made


class Flag(NamedTuple):
    """An option of a command that is the same as a setting.

    - ``name``: the option as it is typed.
    - ``value``: its value; None if it was not given.
    """

    name: str
    value: str | Sequence[str] | None


def option_text(pair: str) -> str:
    """Start of a message about a setting: where it was given, and its text."""
    return f"{pair.place}: set: {pair}" if isinstance(pair, FromFile) else f"--set {pair}"


def name_of(pair: str) -> str:
    """Name of a setting, with underscores."""
    return pair.partition("=")[0].strip().replace("-", "_")


def beside_flags(pairs: Sequence[str], flags: Mapping[str, Flag]) -> list[str]:
    """The pairs, and those of the given flags. Raises `UsageError` if a setting is given in both ways."""
    for pair in pairs:
        flag = flags.get(name_of(pair))
        if flag is not None and flag.value is not None:
            raise UsageError(f"{option_text(pair)}: {flag.name} says the same thing; give one of them")
    given = {name: flag.value for name, flag in flags.items() if flag.value is not None}
    return [*(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in given.items()), *pairs]


def read_mapping(path: Path) -> dict[str, Any]:
    """Content of a file of options, with each value as it is written. Raises `UsageError` and `OSError`."""
    try:
        # No guesses of types: a value in a file and on the command line is the same text.
        found = yaml.load(path.expanduser().read_bytes(), Loader=yaml.BaseLoader)  # noqa: S506
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(found or {}, dict):
        raise UsageError(f"{path}: want a mapping of options to values, such as `workers: 2`")
    return found or {}


def pairs_of(settings: Any, place: Path, above: str = "") -> Iterator[FromFile]:
    """The settings of a mapping in a file, each in the form of ``--set``. Raises `UsageError` for a wrong form."""
    if not isinstance(settings, Mapping):
        raise UsageError(f"{place}: set: want a mapping of names to values, such as `sweeps: 100`")
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from pairs_of(value, place, f"{above}{name}.")
        else:
            text = value if value == "null" else json.dumps(value, ensure_ascii=False)
            yield FromFile(f"{above}{name}={text}", str(place))
