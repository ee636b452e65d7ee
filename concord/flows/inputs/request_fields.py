"""Python functions whose parameters are the fields of a flow's request, so that a new option stands in one place."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from os import PathLike, fspath
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import ValidationError

from concord.flows.errors import faults
from concord.flows.inputs.in_python import in_python, several
from concord.schemas.errors import UsageError
from concord.schemas.names import unknown
from concord.schemas.requests import FlowRequest
from concord.schemas.settings import SettingsField, fields_within, put_within, takes_several

R = TypeVar("R")
Request = TypeVar("Request", bound=FlowRequest)

FIELDS = "{fields}"
"""Line of a docstring in whose place the fields stand."""


def takes_fields(
    kind: type[Request],
    place_of: Callable[[Any, Request], str] | None = None,
    *,
    names: Mapping[str, str] = MappingProxyType({}),
    rest: str | None = None,
    apart: Collection[str] = (),
) -> Callable[[Callable[[Request], R]], Callable[..., R]]:
    """Makes a function of a request one of its fields: the first by its place, too, the others by their names alone.

    Paths may be path objects, and None is a field's default. What is given for the first field may be no path; then
    ``place_of`` makes one of it, once all else is known to be right. The line `FIELDS` of the docstring becomes a list
    of the fields. A call raises `UsageError` for an unknown name and for a value that a field does not take.

    - ``names``: parameters of other names than their fields, by field
    - ``rest``: field that takes the arguments of all other names
    - ``apart``: fields that are no parameters, an inner one as ``OUTER.INNER``
    """
    asked = [field for field in fields_within(kind) if ".".join(field.path) not in apart]
    fields = {names.get(field.path[-1], field.path[-1]): field for field in asked}
    first = next(iter(fields))

    def decorate(function: Callable[[Request], R]) -> Callable[..., R]:
        @wraps(function)
        def called(*args: Any, **kwargs: Any) -> R:
            values = _bound(signature, args, kwargs)
            place = values[first]
            if place_of is None or isinstance(place, str | PathLike):
                return function(_request(kind, fields, values))
            request = _request(kind, fields, values | {first: "a place to come"})
            return function(request.model_copy(update={first: place_of(place, request)}))

        kinds = {first: inspect.Parameter.POSITIONAL_OR_KEYWORD, rest: inspect.Parameter.VAR_KEYWORD}
        parameters = [
            _parameter(name, field, kinds.get(name, inspect.Parameter.KEYWORD_ONLY)) for name, field in fields.items()
        ]
        signature = inspect.signature(function).replace(parameters=sorted(parameters, key=lambda one: one.kind))
        vars(called)["__signature__"] = signature
        meanings = {name: in_python(str(field.info.description), fields) for name, field in fields.items()}
        lines = [f"    - ``{name}``: {meaning}" for name, meaning in meanings.items()]
        called.__doc__ = (function.__doc__ or "").replace(f"    {FIELDS}", "\n".join(lines))
        return called

    return decorate


def _parameter(name: str, field: SettingsField, kind: Any) -> inspect.Parameter:
    if kind is inspect.Parameter.VAR_KEYWORD:
        return inspect.Parameter(name, kind, annotation=Any)
    return inspect.Parameter(name, kind, default=field.default, annotation=field.info.annotation)


def _bound(signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by name. Raises `UsageError` for an unknown name, `TypeError` where one is missing."""
    open_ended = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in signature.parameters.values())
    for name in kwargs:
        if name not in signature.parameters and not open_ended:
            raise UsageError(unknown("option", name, signature.parameters))
    return signature.bind(*args, **kwargs).arguments


def _request(kind: type[Request], fields: Mapping[str, SettingsField], values: Mapping[str, Any]) -> Request:
    """The request of the values by name. Raises `UsageError`."""
    nested: dict[str, Any] = {}
    for name, value in values.items():
        if value is not None:
            field = fields[name]
            put_within(nested, field.path, _plain(several(value) if takes_several(field.info.annotation) else value))
    try:
        return kind.model_validate(nested)
    except ValidationError as error:
        raise UsageError(faults(error)) from None


def _plain(value: Any) -> Any:
    """A value with its paths as text."""
    if isinstance(value, PathLike):
        return fspath(value)
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value
