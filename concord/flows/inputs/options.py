"""``--set NAME=VALUE`` parsed into a settings class."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import yaml
from pydantic import ValidationError, create_model

from concord.flows.errors import faults
from concord.flows.inputs.given import option_text
from concord.schemas.errors import UsageError
from concord.schemas.names import closest
from concord.schemas.run import RunSettings
from concord.schemas.settings import Settings, TextSettings, takes_several
from concord.workers.corpus.settings import TextReaderSettings
from concord.workers.inference.registry import solver_named

S = typing.TypeVar("S", bound=Settings)

NO_DEFAULTS: Mapping[str, Any] = MappingProxyType({})


class OptionError(UsageError):
    """An unknown option, or a value that an option does not take."""


def option_values(pairs: Sequence[str], kind: type[Settings], *, owner: str) -> dict[str, Any]:
    """Values by name from ``NAME=VALUE`` strings; values are written as in YAML, and a list also as ``a,b``.

    A setting inside another one is given as ``OUTER.INNER``, and is returned in a dict of its own. Raises
    `OptionError`, also for a setting that is given twice.
    """
    values: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        *outer, last = name.strip().replace("-", "_").split(".")
        inside, into, whose = kind, values, owner
        for part in outer:
            inside, into, whose = _inside(inside, part, pair, whose), into.setdefault(part, {}), f"{whose}, {part}"
        _check_name(inside, last, pair, whose)
        if not equals:
            raise OptionError(f"{option_text(pair)}: want NAME=VALUE, such as --set {pair.strip()}=VALUE")
        if last in into:
            raise OptionError(f"{option_text(pair)}: {last!r} is given twice; give it once")
        into[last] = _value(value, inside.model_fields[last].annotation, pair)
    return values


def _inside(kind: type[Settings], name: str, pair: str, owner: str) -> type[Settings]:
    """Settings class of an option's value. Raises `OptionError` if its value is no settings."""
    if name not in kind.model_fields:
        raise _unknown(kind, name, pair, owner)
    found = _settings_of(kind, name)
    if found is None:
        raise OptionError(f"{option_text(pair)}: {name!r} of {owner} has no options of its own; give {name}=VALUE")
    return found


def _check_name(kind: type[Settings], name: str, pair: str, owner: str) -> None:
    """Raises `OptionError` for an unknown option, and for one that has options of its own and so takes no value."""
    if name not in kind.model_fields:
        raise _unknown(kind, name, pair, owner)
    inner = _settings_of(kind, name)
    if inner is not None:
        raise OptionError(
            f"{option_text(pair)}: {name!r} has options of its own; want {name}.NAME=VALUE, NAME one of "
            f"{_listed(inner)}"
        )


def _settings_of(kind: type[Settings], name: str) -> type[Settings] | None:
    field = kind.model_fields.get(name)
    found = None if field is None else field.annotation
    return found if isinstance(found, type) and issubclass(found, Settings) else None


def _unknown(kind: type[Settings], name: str, pair: str, owner: str) -> OptionError:
    meant = closest(name, kind.model_fields)
    guess = "" if meant is None else f" did you mean {meant!r}?"
    return OptionError(
        f"{option_text(pair)}: {owner} has no option {name!r};{guess} options of {owner}: {_listed(kind)}"
    )


def _listed(kind: type[Settings]) -> str:
    return ", ".join(f"{name}.…" if _settings_of(kind, name) else name for name in kind.model_fields) or "none"


def _value(text: str, annotation: Any, pair: str) -> str | tuple[str, ...] | None:
    """Value for pydantic, of a field with this annotation. Raises `OptionError` for a list in a wrong form."""
    node = _node(text)
    if text.strip() in NULLS and type(None) in typing.get_args(annotation):
        return None
    if takes_several(annotation):
        return _list(text, node, pair)
    if isinstance(node, yaml.ScalarNode) and node.style is not None:
        return str(node.value)  # as it stands between its quotes
    return text


NULLS = ("null", "~")
"""Null in YAML."""


def _node(text: str) -> yaml.Node | None:
    """The value as a YAML node, without guessing of types; None if it is no YAML."""
    try:
        return yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.YAMLError:
        return None


def _list(text: str, node: yaml.Node | None, pair: str) -> tuple[str, ...]:
    """Plain values of a list."""
    if isinstance(node, yaml.SequenceNode) and all(isinstance(part, yaml.ScalarNode) for part in node.value):
        return tuple(part.value for part in node.value)
    if text.lstrip().startswith("["):
        raise OptionError(f"{option_text(pair)}: want a list such as [a, b], or a,b")
    plain = node.value if isinstance(node, yaml.ScalarNode) and node.style is not None else text
    return tuple(part.strip() for part in plain.split(","))


def parse_options(pairs: Sequence[str], kind: type[S], *, owner: str, defaults: Mapping[str, Any] = NO_DEFAULTS) -> S:
    """An instance of the settings class; ``defaults`` are the command's own. Raises `OptionError`."""
    return validated({**defaults, **option_values(pairs, kind, owner=owner)}, kind, owner=owner)


def validated(values: Mapping[str, Any], kind: type[S], *, owner: str) -> S:
    """An instance of the settings class. Raises `OptionError`, which lists the options if a name is unknown."""
    try:
        return kind.model_validate(dict(values))
    except ValidationError as error:
        unknown = any(fault["type"] == "extra_forbidden" for fault in error.errors())
        raise OptionError(
            f"options of {owner}: {faults(error)}" + (f"; there are {_listed(kind)}" if unknown else "")
        ) from error


def run_settings(values: Mapping[str, Any], pairs: Sequence[str]) -> RunSettings:
    """Settings of a run, with the options of its engine from ``NAME=VALUE`` strings.

    Raises `EngineError` for an unknown engine, and `OptionError`.
    """
    engine = str(values["engine"])
    options = option_values(pairs, solver_named(engine).settings, owner=f"engine {engine}")
    try:
        return RunSettings.model_validate({**values, "options": options})
    except ValidationError as error:
        raise OptionError(faults(error)) from error


def with_engine(
    pairs: Sequence[str], kind: type[S], engine: str, *, owner: str, under: str = "engine"
) -> tuple[S, dict[str, Any]]:
    """Settings, and the options of an engine, which are given as ``UNDER.NAME=VALUE``.

    Raises `EngineError` and `OptionError`.
    """
    of_solver: dict[str, Any] = {under: (solver_named(engine).settings, ...)}
    both = create_model(kind.__name__, __base__=kind, **of_solver)
    values = option_values(pairs, both, owner=owner)
    of_engine = values.pop(under, {})
    return validated(values, kind, owner=owner), of_engine


def text_settings(text: TextSettings, encoding: str) -> TextReaderSettings:
    """Settings for reading raw text in an encoding. Raises `OptionError` for an unknown encoding."""
    try:
        return TextReaderSettings.of(text, encoding)
    except ValidationError as error:
        raise OptionError(faults(error)) from error
