"""Flows as functions. Prefect watches a call if an API of it is configured; otherwise it is not imported."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from pydantic import ConfigDict, ValidationError, validate_call

from concord.flows.errors import faults
from concord.flows.screen.progress import compiling_told
from concord.schemas.errors import FlowInterrupt, UsageError
from concord.schemas.requests import FlowRequest
from concord.schemas.secrets import masked_errors

if TYPE_CHECKING:
    from prefect import Flow

P = ParamSpec("P")
R = TypeVar("R")

_FILES = (".env", "prefect.toml", "pyproject.toml")
"""Files in the current folder that can configure Prefect."""

_MARKS = ("prefect_api_url", "[api]", "[tool.prefect.api]", "api.url")
"""Texts of which a file that configures an API has one."""


class FlowError(UsageError):
    """A value that a flow's parameter does not take."""


class Watched(NamedTuple):
    """A flow for Prefect.

    - ``name``: its name.
    - ``run_name``: template over its parameters, for the names of its runs.
    - ``run``: the function.
    - ``request``: describes its parameters.
    """

    name: str
    run_name: str
    run: Callable[..., Any]
    request: type[FlowRequest]


WATCHED: dict[Any, Watched] = {}
"""Flows, by the function that users call."""


def watched(name: str, request: type[FlowRequest], *, run_name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Makes a function a flow of that name; ``run_name`` is a template over its parameters.

    Its docstring gets the descriptions of its parameters, which are the fields of ``request``. Parameters are
    validated, so that a mapping is allowed in place of settings, and errors hold no secrets. A call raises `FlowError`
    for a value that a parameter does not take, and the errors of `flows.prefect.private_flow.PrivateFlow`.
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
            except FlowInterrupt:
                raise  # of a flow in this one
            except KeyboardInterrupt:
                raise FlowInterrupt(f"{name} was interrupted; the same call does what is not done yet") from None
            except ValidationError as error:
                if error.title not in (run.__name__, request.__name__):
                    raise  # of something that the function did
                raise FlowError(f"{name}: {faults(error)}") from None

        called.__doc__ = request.documented(inspect.cleandoc(run.__doc__ or ""))
        WATCHED[called] = Watched(name, run_name, masked, request)
        return called

    return decorate


def flow_of(called: Callable[P, R]) -> Flow[P, R]:
    """Prefect's object for a function that `watched` made a flow; a deployment needs it."""
    from concord.flows.prefect.private_flow import private_flow

    return private_flow(*WATCHED[called])


def is_watched() -> bool:
    """Is Prefect to watch: is an API configured, or is this called by a flow?"""
    if "prefect" not in sys.modules and not os.environ.get("PREFECT_API_URL") and not any(map(_mentions_api, _files())):
        return False
    from concord.flows.prefect.api import api_url, in_a_flow

    return in_a_flow() or api_url() is not None


def _files() -> Iterator[Path]:
    home = Path(os.environ.get("PREFECT_HOME", "~/.prefect")).expanduser()
    yield Path(os.environ.get("PREFECT_PROFILES_PATH", home / "profiles.toml")).expanduser()
    yield from map(Path, _FILES)


def _mentions_api(path: Path) -> bool:
    """Might a file configure an API? If so Prefect itself is asked, which takes seconds to import."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace").lower()
    except OSError:
        return False
    return any(mark in text for mark in _MARKS)
