"""Errors of functions that users call from Python: they speak of parameters, not of options of the command line."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection
from functools import wraps
from os import PathLike
from typing import Any, ParamSpec, TypeVar

from concord.flows.inputs.path_errors import PATH_ERRORS, path_fault
from concord.schemas.errors import InputError, UsageError

P = ParamSpec("P")
R = TypeVar("R")

SET_OPTION = re.compile(r"--set ([\w.]+)=(\S+)")
ANY_OPTION = re.compile(r"--(no-)?([a-z]+(?:-[a-z]+)*)( (?=[A-Z]{2,}\b))?")
"""An option, and the blank before what stands for its value, as in ``--id-column NAME``."""
COMMAND = re.compile(r"(`concord [^`]*`)")
"""A command in a message, which is for the shell."""


def speaks_python(function: Callable[P, R]) -> Callable[P, R]:
    """The function, whose `InputError` and `UsageError` name its own parameters in place of a command's options.

    An `OSError` about a path, see `PATH_ERRORS`, is an `InputError`, too.
    """
    names = inspect.signature(function).parameters.keys()

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except (InputError, UsageError) as error:
            error.args = tuple(in_python(part, names) if isinstance(part, str) else part for part in error.args)
            raise
        except OSError as error:
            if error.errno not in PATH_ERRORS:
                raise
            raise InputError(path_fault(error)) from error

    return called


def several(values: Any) -> Any:
    """Values of a parameter that takes several: one path or text is the only one of them."""
    return (values,) if isinstance(values, str | PathLike) else values


def in_python(message: str, parameters: Collection[str]) -> str:
    """A message with each option that is one of the parameters as Python has it; others stay, and so do commands.

    >>> in_python("name it with --id-column NAME, or use --no-consistency", ["id_column", "consistency"])
    'name it with id_column=NAME, or use consistency=False'
    """

    def parameter(found: re.Match[str]) -> str:
        name = found[2].replace("-", "_")
        if name not in parameters:
            return found[0]
        if found[1]:
            return f"{name}=False"
        return f"{name}=" if found[3] else name

    def translated(text: str) -> str:
        if "options" in parameters:
            text = SET_OPTION.sub(lambda found: f"options={{{found[1]!r}: {found[2]!r}}}", text)
        return ANY_OPTION.sub(parameter, text)

    return "".join(part if COMMAND.match(part) else translated(part) for part in COMMAND.split(message))
