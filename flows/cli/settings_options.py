"""Options of a command that are the fields of a settings class: named, bounded and described there alone."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Annotated, Any, NamedTuple

import typer
from annotated_types import Ge
from pydantic.fields import FieldInfo

from concord.schemas.settings import Settings


class _Option(NamedTuple):
    """One field of the settings, or of settings in them: where it stands, and the parameter it becomes."""

    path: tuple[str, ...]
    parameter: inspect.Parameter


def takes(kind: type[Settings], *, apart: tuple[str, ...] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command one option for each field of ``kind``, but for those ``apart``, in place of ``settings``.

    The command's parameter ``settings`` gets what was given, as a mapping that ``kind`` validates; fields of
    settings within the settings are options too, and apart as ``OUTER.INNER``.
    """
    options = [option for option in _options(kind) if ".".join(option.path) not in apart]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [p for p in signature.parameters.values() if p.name != "settings"]

        @wraps(command)
        def called(**given: Any) -> None:
            values: dict[str, Any] = {}
            for option in options:
                _put(values, option.path, given.pop(option.parameter.name))
            command(**given, settings=values)

        parameters = [*own, *(option.parameter for option in options)]
        vars(called)["__signature__"] = signature.replace(parameters=parameters)
        called.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
        return called

    return decorate


def _options(kind: type[Settings], above: tuple[str, ...] = ()) -> Iterator[_Option]:
    for name, field in kind.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, Settings):
            yield from _options(inner, (*above, name))
        else:
            yield _Option((*above, name), _parameter(name, field))


def _parameter(name: str, field: FieldInfo) -> inspect.Parameter:
    flags = [f"--{name.replace('_', '-')}"]
    text = str(field.description)
    least: Any = next((limit.ge for limit in field.metadata if isinstance(limit, Ge)), None)
    option = typer.Option(*flags, help=f"{text[0].upper()}{text[1:].rstrip('.')}.", min=least)
    annotation = Annotated[field.annotation, option]  # type: ignore[name-defined]  # made at run time
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=field.get_default(call_default_factory=True),
        annotation=annotation,
    )


def _put(values: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        values = values.setdefault(name, {})
    values[path[-1]] = value
