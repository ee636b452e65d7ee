"""Options of a command that are the fields of a settings class, which names, bounds and describes them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, get_args, get_origin

import typer
from annotated_types import Ge, Le
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from concord.flows.cli.typer_internals import OptionInfo
from concord.schemas.errors import UsageError
from concord.schemas.settings import Settings, SettingsField, fields_within, put_within


def _unchanged(value: Any) -> Any:
    return value


class OptionForm(NamedTuple):
    """Form that a field has on the command line, where that is not its own.

    - ``name``: the option, with underscores; empty for the field's name
    - ``kind``: type of what is typed; None for the field's
    - ``value``: the field's value of what is typed
    - ``meaning``: help text of the field's description
    - ``parameter``: `typer.Option`, or `typer.Argument` for what stands by its place
    - ``default``: value where nothing is typed; None for the field's
    """

    name: str = ""
    kind: Any = None
    value: Callable[[Any], Any] = _unchanged
    meaning: Callable[[str], str] = _unchanged
    parameter: Callable[..., Any] = typer.Option
    default: Any = None


def as_text(path: Path | None) -> str | None:
    """The field's value of a path."""
    return None if path is None else str(path)


NO_FORMS: Mapping[str, OptionForm] = MappingProxyType({})
SHARD_KIB = OptionForm(
    "shard_kib", int | None, lambda kib: kib and kib << 10, lambda text: text.replace("in bytes", "in KiB")
)
REGISTER = OptionForm("register")
A_PATH, PERHAPS_A_PATH = OptionForm(kind=Path, value=as_text), OptionForm(kind=Path | None, value=as_text)
"""Forms of fields of several requests."""


class FieldOptions(NamedTuple):
    """Mark of a command's parameter, in whose place the command has an option for each field of a settings class.

    - ``kind``: the settings class. Fields of settings within settings are options too.
    - ``apart``: fields that are no options; an inner one as ``OUTER.INNER``.
    - ``forms``: forms of fields that the command line has in another way, by name.

    A parameter of the type ``kind`` gets the validated settings. A parameter that is a mapping gets the given values,
    for settings that need more than these.
    """

    kind: type[Settings]
    apart: tuple[str, ...] = ()
    forms: Mapping[str, OptionForm] = NO_FORMS


class _Option(NamedTuple):
    """A field of the settings, or of settings within them.

    - ``path``: names of the fields that lead to it, itself last.
    - ``parameter``: the command's parameter.
    - ``value``: the field's value of the parameter's.
    """

    path: tuple[str, ...]
    parameter: inspect.Parameter
    value: Callable[[Any], Any]

    def is_apart(self, names: Sequence[str]) -> bool:
        """Is it, or one of the settings around it, among these fields?"""
        return any(".".join(self.path[: end + 1]) in names for end in range(len(self.path)))


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
                options = tuple(o for o in _options(fields.kind, fields.forms) if not o.is_apart(fields.apart))
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
                put_within(values, option.path, option.value(given.pop(option.parameter.name)))
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


def _options(kind: type[Settings], forms: Mapping[str, OptionForm]) -> Iterator[_Option]:
    for field in fields_within(kind):
        own = forms.get(field.path[0]) if len(field.path) == 1 else None
        yield _option(field, own or _form(field.info))


def _form(field: FieldInfo) -> OptionForm:
    """The form of a field by its type: an option for many values may be given many times."""
    if get_origin(field.annotation) is tuple:
        return OptionForm(
            kind=list[get_args(field.annotation)[0]] | None,  # type: ignore[misc]  # known when it runs
            value=lambda values: tuple(values or ()),
            meaning=lambda text: f"{text.rstrip('.')}; may be given many times.",
        )
    return OptionForm()


def _option(field: SettingsField, form: OptionForm) -> _Option:
    """The option of a field: by the field's own `OptionInfo` if it has one, or else by form and description."""
    info = next((part for part in field.info.metadata if isinstance(part, OptionInfo)), None)
    name = field.path[-1]
    parameter = inspect.Parameter(
        form.name or name,
        inspect.Parameter.KEYWORD_ONLY,
        default=field.default if form.default is None else form.default,
        annotation=Annotated[form.kind or field.info.annotation, info or _described(name, field.info, form)],
    )
    return _Option(field.path, parameter, form.value)


def _described(name: str, field: FieldInfo, form: OptionForm) -> Any:
    text, words = form.meaning(str(field.description)), (form.name or name).replace("_", "-")
    limits: dict[str, Any] = {}
    for limit in field.metadata:
        limits |= {"min": limit.ge} if isinstance(limit, Ge) else {"max": limit.le} if isinstance(limit, Le) else {}
    # What is on unless it is switched off has a switch for either.
    spelled = f"--{words}/--no-{words}" if field.default is True else f"--{words}"
    spellings = [spelled] if form.parameter is typer.Option else []
    return form.parameter(*spellings, help=f"{text[0].upper()}{text[1:].rstrip('.')}.", **limits)
