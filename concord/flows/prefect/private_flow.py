"""Flows that Prefect watches: it keeps no secret of their parameters and names, and its end is not theirs.

Errors go into states and logs, which is why a flow's function is under `schemas.secrets.masked_errors`.
"""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial, wraps
from inspect import getdoc
from types import TracebackType
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

import httpx
import prefect.settings
from prefect import Flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.exceptions import PrefectHTTPStatusError, TerminationSignal
from prefect.logging.handlers import PrefectConsoleHandler
from prefect.runtime import flow_run
from prefect.settings import temporary_settings
from prefect.states import Cancelled

from concord.flows.environment import PREFECT
from concord.flows.errors import FORESEEN, PrefectError, UnwatchedError
from concord.flows.prefect.api import check_api, of_api
from concord.flows.prefect.shown import CANCEL_SECONDS, shown
from concord.flows.screen.pages import INTERRUPTED
from concord.flows.screen.patience import within
from concord.flows.screen.progress import say
from concord.schemas.requests import FlowRequest
from concord.schemas.secrets import redact

P = ParamSpec("P")
R = TypeVar("R")

OURS = ("PREFECT_API_REQUEST_TIMEOUT", "PREFECT_CLIENT_MAX_RETRIES")
"""Settings of a call, where the user has said nothing else."""

LOGGERS = ("", "prefect", "prefect.flow_runs", "prefect.task_runs")
"""Whose handlers write to a terminal or into a notebook."""


@dataclass
class _Ending:
    """How a flow's function ended, if it did: with the one answer, or with an error and where it came from.

    - ``run``: Prefect's id of the flow run
    """

    run: str | None = None
    answers: list[Any] = field(default_factory=list)
    error: BaseException | None = None
    trace: TracebackType | None = None


class PrivateFlow(Flow[P, R]):
    """A flow that gets its parameters as they are and has them stored with their secrets masked.

    That holds for a call. The parameters of a deployment are stored as they were deployed.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the function, watched by Prefect, which writes nothing to the terminal: an error is shown by who calls.

        Raises `PrefectError` where Prefect cannot be reached and nothing has begun, and `UnwatchedError`
        where it went away meanwhile. An error of the function goes before both.
        """
        ending = _Ending()
        noted = copy.copy(self)
        noted.fn = _noting(self.fn, ending)
        with temporary_settings(set_defaults={getattr(prefect.settings, name): PREFECT[name] for name in OURS}):
            check_api()
            try:
                with _quiet():
                    return super(PrivateFlow, noted).__call__(*args, **kwargs)
            except httpx.HTTPError as error:
                if error is ending.error:
                    raise
                reason = of_api(error)
            except Exception as error:
                if error is not ending.error:
                    raise
                # Without the sixty lines of Prefect's engine around it.
                raise error.with_traceback(ending.trace) from error.__cause__
            except BaseException:
                _say_cancelled(ending)
                raise
        return _unwatched(ending, reason)

    def serialize_parameters(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """What Prefect stores."""
        stored: dict[str, Any] = _masked(super().serialize_parameters(parameters))
        return stored


def _unwatched(ending: _Ending, reason: str) -> Any:
    """What a call comes to whose API has gone away."""
    if ending.answers:
        raise UnwatchedError(f"{reason}; the output is finished, but Prefect does not know", ending.answers[0])
    if ending.error is None:
        raise PrefectError(reason)
    say(f"{reason}; it does not know how the run ended")
    if isinstance(ending.error, TerminationSignal):
        # As Prefect ends a flow that was told to end: by whoever handled the signal before.
        os.kill(os.getpid(), ending.error.signal)
    raise ending.error.with_traceback(ending.trace)


def _say_cancelled(ending: _Ending) -> None:
    """Ends a run that a signal has ended as cancelled; Prefect takes it for one that has crashed.

    That is for a call: of a deployed run the worker says that it is cancelled, once its process has ended.
    """
    if ending.run is None:
        return
    with suppress(TimeoutError, httpx.HTTPError, PrefectHTTPStatusError):
        within(CANCEL_SECONDS, partial(_cancel, UUID(ending.run)))


def _cancel(run: UUID) -> None:
    state: State[Any] = Cancelled(message=INTERRUPTED)
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(run, state, force=True)


def private_flow(name: str, run_name: str, run: Callable[P, R], request: type[FlowRequest]) -> PrivateFlow[P, R]:
    """A function as a `PrivateFlow`; ``run_name`` is a template over its parameters, which ``request`` describes."""

    def called() -> str:
        return redact(run_name.format(**flow_run.parameters))

    function, text = shown(run), getdoc(run) or ""
    # Prefect's form takes the descriptions of parameters from the docstring.
    function.__doc__ = request.documented(text)
    return PrivateFlow(
        function,
        name=name,
        description=text,
        flow_run_name=called,
        persist_result=False,
        validate_parameters=False,  # the function does, and says what is wrong in a line
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps Prefect's lines from the terminal, but not from its API."""

    def nothing(_record: logging.LogRecord) -> bool:
        return False

    every = [handler for name in LOGGERS for handler in logging.getLogger(name).handlers]
    consoles = [handler for handler in every if isinstance(handler, PrefectConsoleHandler)]
    for handler in consoles:
        handler.addFilter(nothing)
    try:
        yield
    finally:
        for handler in consoles:
            handler.removeFilter(nothing)


def _noting(run: Callable[P, R], ending: _Ending) -> Callable[P, R]:
    """The same function, which notes how it ended."""

    @wraps(run)
    def noted(*args: P.args, **kwargs: P.kwargs) -> R:
        ending.run = flow_run.get_id()
        try:
            answer = run(*args, **kwargs)
        except BaseException as error:
            ending.error, ending.trace = error, error.__traceback__
            raise
        data: Any = answer.data if isinstance(answer, State) else answer
        if isinstance(data, FORESEEN):
            ending.error, ending.trace = data, data.__traceback__
        else:
            ending.answers.append(data)
        return answer

    return noted


def _masked(value: Any) -> Any:
    """JSON-like data with every text masked."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {key: _masked(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_masked(part) for part in value]
    return value
