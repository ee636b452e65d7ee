"""Options of a command that are the fields of a settings class, which names, bounds and describes them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Annotated, Any, NamedTuple, get_args

import typer
from annotated_types import Ge
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from concord.flows.cli.typer_internals import OptionInfo
from concord.schemas.errors import UsageError
from concord.schemas.settings import Settings


class FieldOptions(NamedTuple):
    """Mark of a command's parameter, in whose place the command has an option for each field of a settings class.

    - ``kind``: the settings class. Fields of settings within settings are options too.
    - ``apart``: fields that are no options; an inner one as ``OUTER.INNER``.

    A parameter of the type ``kind`` gets the validated settings. A parameter that is a mapping gets the given values,
    for settings that need more than these.
    """

    kind: type[Settings]
    apart: tuple[str, ...] = ()


class _Option(NamedTuple):
    """A field of the settings, or of settings within them.

    - ``path``: names of the fields that lead to it, itself last.
    - ``parameter``: the command's parameter.
    """

    path: tuple[str, ...]
    parameter: inspect.Parameter


class _Marked(NamedTuple):
    """A parameter with the mark `FieldOptions`.

    - ``options``: its options.
    - ``made``: makes its value from the values of the options.
    """

    options: tuple[_Option, ...]
    made: Callable[[dict[str, Any]], Any]

    @classmethod
    def of(cls, parameter: inspect.Parameter) -> _Marked | None:
        """The mark of a parameter; None for any other parameter."""
        for fields in getattr(parameter.annotation, "__metadata__", ()):
            if isinstance(fields, FieldOptions):
                options = tuple(o for o in _options(fields.kind) if ".".join(o.path) not in fields.apart)
                whole = get_args(parameter.annotation)[0] is fields.kind
                return cls(options, fields.kind.model_validate if whole else dict)
        return None


def with_fields(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with options in place of each parameter that has the mark `FieldOptions`."""
    signature = inspect.signature(command, eval_str=True)
    found = {name: _Marked.of(parameter) for name, parameter in signature.parameters.items()}
    marked = {name: parameter for name, parameter in found.items() if parameter is not None}
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        parameters += [o.parameter for o in marked[name].options] if name in marked else [parameter]

    @wraps(command)
    def called(**given: Any) -> Any:
        for name, parameter in marked.items():
            values: dict[str, Any] = {}
            for option in parameter.options:
                _put(values, option.path, given.pop(option.parameter.name))
            try:
                given[name] = parameter.made(values)
            except ValidationError as error:
                raise UsageError("; ".join(_told(fault) for fault in error.errors())) from None
        return command(**given)

    return with_signature(called, parameters)


def _told(fault: Mapping[str, Any]) -> str:
    """Message about a value that an option does not take."""
    name = str(fault["loc"][-1]) if fault["loc"] else "options"
    return f"--{name.replace('_', '-')} {fault['input']}: {fault['msg'].removeprefix('Value error, ')}"


def with_signature(called: Callable[..., Any], parameters: Sequence[inspect.Parameter]) -> Callable[..., Any]:
    """The function with these parameters, as Typer sees it."""
    vars(called)["__signature__"] = inspect.Signature(parameters)
    called.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
    return called


def _options(kind: type[Settings], above: tuple[str, ...] = ()) -> Iterator[_Option]:
    for name, field in kind.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, Settings):
            yield from _options(inner, (*above, name))
        else:
            yield _Option((*above, name), _parameter(name, field))


def _parameter(name: str, field: FieldInfo) -> inspect.Parameter:
    """The option of a field: by the field's own `OptionInfo` if it has one, or else by its description."""
    option = next((given for given in field.metadata if isinstance(given, OptionInfo)), None)
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if field.is_required() else field.get_default(call_default_factory=True),
        annotation=Annotated[field.annotation, option or _described(name, field)],
    )


def _described(name: str, field: FieldInfo) -> Any:
    text = str(field.description)
    least: Any = next((limit.ge for limit in field.metadata if isinstance(limit, Ge)), None)
    return typer.Option(f"--{name.replace('_', '-')}", help=f"{text[0].upper()}{text[1:].rstrip('.')}.", min=least)


def _put(values: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        values = values.setdefault(name, {})
    values[path[-1]] = value
