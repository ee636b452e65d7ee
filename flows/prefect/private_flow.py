"""Flows that Prefect watches: it keeps no secret of their parameters and names, and its end is not theirs.

Errors go into states and logs: what may raise one is under `schemas.secrets.masked_errors`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

import httpx
from prefect import Flow
from prefect.runtime import flow_run

from flows.prefect.prefect_server import PrefectError, check_api, of_api
from flows.progress import say
from schemas.secrets import redact

P = ParamSpec("P")
R = TypeVar("R")


class UnwatchedError(PrefectError):
    """Prefect's API went away while the flow ran. The work is done; ``report`` is what would have come back."""

    def __init__(self, reason: str, report: Any) -> None:
        super().__init__(reason)
        self.report = report


@dataclass
class _Ending:
    """How a flow's function ended, if it did: with the one answer, or with an error."""

    answers: list[Any] = field(default_factory=list)
    error: BaseException | None = None


class PrivateFlow(Flow[P, R]):
    """A flow that gets its parameters as they are and has them stored with their secrets masked.

    That holds for a call. The parameters of a deployment are stored as they were deployed.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the function, watched by Prefect.

        Raises `PrefectError` where Prefect cannot be reached and nothing has begun, and `UnwatchedError`
        where it went away meanwhile. An error of the function goes before both.
        """
        check_api()
        ending = _Ending()
        noted = copy.copy(self)
        noted.fn = _noting(self.fn, ending)
        try:
            return super(PrivateFlow, noted).__call__(*args, **kwargs)
        except httpx.HTTPError as error:
            if error is ending.error:
                raise
            reason = of_api(error)
        if ending.error is not None:
            say(f"{reason}; it does not know how the run ended")
            raise ending.error
        if ending.answers:
            raise UnwatchedError(f"{reason}; the output is finished, but Prefect does not know", ending.answers[0])
        raise PrefectError(reason)

    def serialize_parameters(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """What Prefect stores."""
        stored: dict[str, Any] = _masked(super().serialize_parameters(parameters))
        return stored


def private_flow(name: str, *, run_name: str) -> Callable[[Callable[P, R]], Flow[P, R]]:
    """Makes a function a `PrivateFlow`; ``run_name`` is a template over its parameters."""

    def decorate(run: Callable[P, R]) -> Flow[P, R]:
        def called() -> str:
            return redact(run_name.format(**flow_run.parameters))

        return PrivateFlow(run, name=name, flow_run_name=called, persist_result=False)

    return decorate


def _noting(run: Callable[P, R], ending: _Ending) -> Callable[P, R]:
    """The same function, which notes how it ended."""

    @wraps(run)
    def noted(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            answer = run(*args, **kwargs)
        except BaseException as error:
            ending.error = error
            raise
        ending.answers.append(answer)
        return answer

    # Prefect would look the names of annotations up in this module.
    vars(noted)["__signature__"] = signature(run, eval_str=True)
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
