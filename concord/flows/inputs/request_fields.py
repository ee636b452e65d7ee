"""Python functions whose parameters are the fields of a flow's request, so that a new option stands in one place."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from os import PathLike, fspath
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from concord.flows.errors import faults
from concord.flows.inputs.in_python import in_python
from concord.schemas.errors import UsageError
from concord.schemas.names import unknown
from concord.schemas.requests import FlowRequest
from concord.schemas.settings import Settings

R = TypeVar("R")
Request = TypeVar("Request", bound=FlowRequest)

FIELDS = "{fields}"
"""Line of a docstring in whose place the fields stand."""


class RequestField(NamedTuple):
    """A field of a request, or of settings within it; ``path`` are the names that lead to it, its own last."""

    path: tuple[str, ...]
    info: FieldInfo

    @property
    def parameter(self) -> inspect.Parameter:
        """The field as a keyword of a function."""
        empty, kind = inspect.Parameter.empty, inspect.Parameter.KEYWORD_ONLY
        default = empty if self.info.is_required() else self.info.get_default(call_default_factory=True)
        return inspect.Parameter(self.path[-1], kind, default=default, annotation=self.info.annotation)


def fields_of(kind: type[Settings], above: tuple[str, ...] = ()) -> Iterator[RequestField]:
    """The fields of settings, and in the place of settings within them those of these."""
    for name, info in kind.model_fields.items():
        inner = info.annotation
        if isinstance(inner, type) and issubclass(inner, Settings):
            yield from fields_of(inner, (*above, name))
        else:
            yield RequestField((*above, name), info)


def takes_fields(
    kind: type[Request], prepared: Callable[[dict[str, Any]], dict[str, Any]]
) -> Callable[[Callable[[Request], R]], Callable[..., R]]:
    """Makes a function of a request one of its fields: the first by its place, too, the others by their names alone.

    Paths may be path objects; ``prepared`` makes what else may be given the fields' own values. The line `FIELDS` of
    the docstring becomes a list of the fields. A call raises `UsageError` for an unknown name and for a value that a
    field does not take.
    """
    fields = {field.path[-1]: field for field in fields_of(kind)}

    def decorate(function: Callable[[Request], R]) -> Callable[..., R]:
        @wraps(function)
        def called(*args: Any, **kwargs: Any) -> R:
            values = prepared(_bound(signature, args, kwargs))
            try:
                request = kind.model_validate(_nested(fields, values))
            except ValidationError as error:
                raise UsageError(faults(error)) from None
            return function(request)

        first, *others = (field.parameter for field in fields.values())
        parameters = [first.replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD), *others]
        required = [one for one in parameters if one.default is inspect.Parameter.empty]
        signature = inspect.signature(function).replace(
            parameters=[*required, *(one for one in parameters if one not in required)]
        )
        vars(called)["__signature__"] = signature
        lines = (
            f"    - ``{name}``: {in_python(str(field.info.description), fields)}" for name, field in fields.items()
        )
        called.__doc__ = (function.__doc__ or "").replace(f"    {FIELDS}", "\n".join(lines))
        return called

    return decorate


def _bound(signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by name. Raises `UsageError` for an unknown name, `TypeError` where one is missing."""
    for name in kwargs:
        if name not in signature.parameters:
            raise UsageError(unknown("option", name, signature.parameters))
    return signature.bind(*args, **kwargs).arguments


def _nested(fields: Mapping[str, RequestField], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values where their fields stand in the request."""
    request: dict[str, Any] = {}
    for name, value in values.items():
        place = request
        for outer in fields[name].path[:-1]:
            place = place.setdefault(outer, {})
        place[name] = _plain(value)
    return request


def _plain(value: Any) -> Any:
    """A value with its paths as text."""
    if isinstance(value, PathLike):
        return fspath(value)
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value
