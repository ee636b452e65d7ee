"""``--option NAME=VALUE`` parsed into a settings class, and settings classes described for people."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from schemas.errors import UsageError
from schemas.run import RunSettings
from schemas.settings import Settings, TextReaderSettings, TextSettings
from workers.inference.registry import solver_named

S = typing.TypeVar("S", bound=Settings)


class OptionError(UsageError):
    """An option that is not there, or a value that it does not take."""


def option_values(pairs: Sequence[str], kind: type[Settings], *, owner: str) -> dict[str, Any]:
    """Values by name from ``NAME=VALUE`` strings; lists are written with commas, none as ``null``.

    An option inside of another one is ``OUTER.INNER``, and comes back in a dict of its own. Raises `OptionError`.
    """
    values: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        *outer, last = name.strip().replace("-", "_").split(".")
        inside, into, whose = kind, values, owner
        for part in outer:
            inside, into, whose = _inside(inside, part, pair, whose), into.setdefault(part, {}), f"{whose}, {part}"
        if not equals or last not in inside.model_fields or _settings_of(inside, last):
            raise _unknown(pair, inside, whose)
        into[last] = _value(value, inside.model_fields[last].annotation)
    return values


def _inside(kind: type[Settings], name: str, pair: str, owner: str) -> type[Settings]:
    """The settings that are the value of an option. Raises `OptionError` where it has another kind of value."""
    found = _settings_of(kind, name)
    if found is None:
        raise _unknown(pair, kind, owner)
    return found


def _settings_of(kind: type[Settings], name: str) -> type[Settings] | None:
    field = kind.model_fields.get(name)
    found = None if field is None else field.annotation
    return found if isinstance(found, type) and issubclass(found, Settings) else None


def _unknown(pair: str, kind: type[Settings], owner: str) -> OptionError:
    known = ", ".join(f"{name}.…" if _settings_of(kind, name) else name for name in kind.model_fields) or "none"
    return OptionError(f"--option {pair}: want NAME=VALUE; options of {owner}: {known}")


def _value(text: str, annotation: Any) -> str | tuple[str, ...] | None:
    """What pydantic is given of a field with this annotation."""
    if typing.get_origin(annotation) is tuple:
        return tuple(part.strip() for part in text.split(","))
    return None if text == "null" and type(None) in typing.get_args(annotation) else text


def parse_options(pairs: Sequence[str], kind: type[S], *, owner: str) -> S:
    """An instance of the settings class. Raises `OptionError` for a value out of range."""
    try:
        return kind.model_validate(option_values(pairs, kind, owner=owner))
    except ValidationError as error:
        raise OptionError(f"options of {owner}: {faults(error)}") from error


def run_settings(values: Mapping[str, Any], pairs: Sequence[str]) -> RunSettings:
    """A run's settings with the options of its engine from ``NAME=VALUE`` strings.

    Raises `EngineError` for an unknown engine and `OptionError` for an option or a value that it does not take.
    """
    engine = str(values["engine"])
    options = option_values(pairs, solver_named(engine).settings, owner=f"engine {engine}")
    try:
        return RunSettings.model_validate({**values, "options": options})
    except ValidationError as error:
        raise OptionError(faults(error)) from error


def text_settings(text: TextSettings, encoding: str) -> TextReaderSettings:
    """How raw text in that encoding is read. Raises `OptionError` for an encoding that is none."""
    try:
        return TextReaderSettings.model_validate({**text.model_dump(), "encoding": encoding})
    except ValidationError as error:
        raise OptionError(faults(error)) from error


def faults(error: ValidationError) -> str:
    """What pydantic found, in one line."""
    return "; ".join(
        ": ".join(filter(None, (".".join(map(str, e["loc"])), e["msg"].removeprefix("Value error, "))))
        for e in error.errors()
    )
