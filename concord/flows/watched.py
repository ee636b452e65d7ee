"""Flows as functions. Prefect watches a call if an API of it is configured; otherwise it is not imported."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

from pydantic import ValidationError

from concord.flows.errors import faults
from concord.flows.screen.progress import compiling_told
from concord.schemas.errors import FlowInterrupt, UsageError
from concord.schemas.requests import CONTEXT, FlowRequest
from concord.schemas.secrets import masked_errors, redact
from concord.schemas.settings import SettingsField

if TYPE_CHECKING:
    from prefect import Flow

R = TypeVar("R")
Request = TypeVar("Request", bound=FlowRequest)

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
    - ``run``: does what a request asks for.
    - ``request``: whose fields are its parameters.
    """

    name: str
    run_name: str
    run: Callable[[Any], Any]
    request: type[FlowRequest]

    @property
    def signature(self) -> inspect.Signature:
        """Parameters of the flow: fields without a default may be given by place, the others by name alone."""
        parameters = [
            inspect.Parameter(
                name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD if field.is_required() else inspect.Parameter.KEYWORD_ONLY,
                default=SettingsField((name,), field).default,
                annotation=Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation,
            )
            for name, field in self.request.fields().items()
        ]
        return inspect.signature(self.run, eval_str=True).replace(parameters=sorted(parameters, key=lambda p: p.kind))

    def request_of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> FlowRequest:
        """The request of a call: the one that it gives as it is, or that of its parameters. Raises `FlowError`."""
        if len(args) == 1 and not kwargs and isinstance(args[0], self.request):
            return args[0]
        try:
            return self.request.of(self.signature.bind(*args, **kwargs).arguments)
        except TypeError as error:
            raise FlowError(redact(f"{self.name}: {error}")) from None
        except ValidationError as error:
            message = faults(error).replace(f"{CONTEXT}.", "")  # its fields are parameters themselves
            raise FlowError(redact(f"{self.name}: {message}")) from None

    def for_prefect(self, request: FlowRequest | None = None) -> Flow[..., Any]:
        """Prefect's object for it; ``request`` is that of a call, which then is not made of parameters again."""
        from concord.flows.prefect.private_flow import private_flow

        @wraps(self.run)
        def by_parameters(*args: Any, **kwargs: Any) -> Any:
            return self.run(self.request_of(args, kwargs) if request is None else request)

        vars(by_parameters)["__signature__"] = self.signature
        return private_flow(self.name, self.run_name, by_parameters, self.request)


WATCHED: dict[Any, Watched] = {}
"""Flows, by the function that users call."""


def watched(
    name: str, request: type[Request], *, run_name: str
) -> Callable[[Callable[[Request], R]], Callable[..., R]]:
    """Makes a function of a request a flow of that name; ``run_name`` is a template over its parameters.

    The flow is called with a request, or with the fields of one as parameters: then these are validated, so that a
    mapping is allowed in place of settings. Its docstring gets the descriptions of the fields, and errors hold no
    secrets. A call raises `FlowError` for a value that a parameter does not take, and the errors of
    `flows.prefect.private_flow.PrivateFlow`.
    """

    def decorate(run: Callable[[Request], R]) -> Callable[..., R]:
        flow = Watched(name, run_name, masked_errors()(run), request)

        @wraps(run)
        def called(*args: Any, **kwargs: Any) -> R:
            call = flow.request_of(args, kwargs)
            try:
                with compiling_told():
                    answer: R = flow.for_prefect(call)(**call.parameters) if is_watched() else flow.run(call)
                    return answer
            except FlowInterrupt:
                raise  # of a flow in this one
            except KeyboardInterrupt:
                raise FlowInterrupt(f"{name} was interrupted; the same call does what is not done yet") from None

        vars(called)["__signature__"] = flow.signature
        called.__doc__ = request.documented(inspect.cleandoc(run.__doc__ or ""))
        WATCHED[called] = flow
        return called

    return decorate


def flow_of(called: Callable[..., Any]) -> Flow[..., Any]:
    """Prefect's object for a function that `watched` made a flow; a deployment needs it."""
    return WATCHED[called].for_prefect()


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
