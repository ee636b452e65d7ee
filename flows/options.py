"""``--option NAME=VALUE`` parsed into a settings class, and settings classes described for people."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from schemas.errors import UsageError
from schemas.run import RunSettings
from schemas.settings import Settings
from workers.inference.registry import solver_named

S = typing.TypeVar("S", bound=Settings)


class OptionError(UsageError):
    """An option that is not there, or a value that it does not take."""


def option_values(pairs: Sequence[str], kind: type[Settings], *, owner: str) -> dict[str, Any]:
    """Values by name from ``NAME=VALUE`` strings; lists are written with commas, none as ``null``.

    Raises `OptionError`.
    """
    values: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or name not in kind.model_fields:
            known = ", ".join(kind.model_fields) or "none"
            raise OptionError(f"--option {pair}: want NAME=VALUE; options of {owner}: {known}")
        values[name] = _value(value, kind.model_fields[name].annotation)
    return values


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


def faults(error: ValidationError) -> str:
    """What pydantic found, in one line."""
    return "; ".join(
        ": ".join(filter(None, (".".join(map(str, e["loc"])), e["msg"].removeprefix("Value error, "))))
        for e in error.errors()
    )
