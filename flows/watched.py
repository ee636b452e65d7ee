"""Flows as functions: Prefect watches a call where an API of its is configured, and is not imported where none is."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from pydantic import ConfigDict, ValidationError, validate_call

from concord.flows.errors import faults
from concord.flows.progress import compiling_told
from concord.schemas.errors import UsageError
from concord.schemas.secrets import masked_errors

if TYPE_CHECKING:
    from prefect import Flow

P = ParamSpec("P")
R = TypeVar("R")

_FILES = (".env", "prefect.toml", "pyproject.toml")
"""Where Prefect looks in the current folder."""

_MARKS = ("prefect_api_url", "[api]", "[tool.prefect.api]", "api.url")
"""One of these is in a file that configures an API."""


class FlowError(UsageError):
    """A value that a flow's parameter does not take."""


class Watched(NamedTuple):
    """What Prefect is told of a flow: its name, a template over parameters for the names of runs, and the function."""

    name: str
    run_name: str
    run: Callable[..., Any]


WATCHED: dict[Any, Watched] = {}
"""By the function that people call."""


def watched(name: str, *, run_name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Makes a function a flow of that name; ``run_name`` is a template over its parameters.

    Parameters are validated, so that a mapping will do for settings, and errors hold no secrets. Raises `FlowError`
    for what a parameter does not take, and what `flows.prefect.private_flow.PrivateFlow` does where that is called.
    """

    def decorate(run: Callable[P, R]) -> Callable[P, R]:
        masked = masked_errors()(run)

        @cache
        def checked() -> Callable[P, R]:
            return validate_call(config=ConfigDict(arbitrary_types_allowed=True))(masked)

        @wraps(run)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                with compiling_told():
                    return flow_of(called)(*args, **kwargs) if is_watched() else checked()(*args, **kwargs)
            except ValidationError as error:
                if error.title != run.__name__:
                    raise  # of something that the function did
                raise FlowError(f"{name}: {faults(error)}") from None

        WATCHED[called] = Watched(name, run_name, masked)
        return called

    return decorate


def flow_of(called: Callable[P, R]) -> Flow[P, R]:
    """Prefect's own object for a function that `watched` has made a flow, such as a deployment needs."""
    from concord.flows.prefect.private_flow import private_flow

    return private_flow(*WATCHED[called])


def is_watched() -> bool:
    """Is there somebody to look: an API that Prefect is configured with, or a flow that calls this one?"""
    if "prefect" not in sys.modules and not os.environ.get("PREFECT_API_URL") and not any(map(_mentions_api, _files())):
        return False
    from concord.flows.prefect.api import api_url, in_a_flow

    return in_a_flow() or api_url() is not None


def _files() -> Iterator[Path]:
    home = Path(os.environ.get("PREFECT_HOME", "~/.prefect")).expanduser()
    yield Path(os.environ.get("PREFECT_PROFILES_PATH", home / "profiles.toml")).expanduser()
    yield from map(Path, _FILES)


def _mentions_api(path: Path) -> bool:
    """Might that file configure an API? Prefect itself is asked then, which takes seconds to import."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace").lower()
    except OSError:
        return False
    return any(mark in text for mark in _MARKS)
