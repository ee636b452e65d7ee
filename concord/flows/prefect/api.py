"""Prefect's API: whether one is configured, and whether it can be reached."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from functools import partial

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.context import FlowRunContext
from prefect.settings import PREFECT_API_URL

from concord.flows.errors import PrefectError
from concord.flows.screen.patience import within


def _errors_only(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR


# Its warning that the server has gone away holds the whole address, with a password. A filter, because
# Prefect's own set-up of logging, at the first flow, takes levels back and leaves filters.
logging.getLogger("prefect.events.clients").addFilter(_errors_only)

REACH_SECONDS = 20.0
"""How long Prefect's API may take to say that it is there, before anything else is begun."""


def api_url() -> str | None:
    """Where Prefect's API is, by the environment, a profile or a file of settings."""
    return PREFECT_API_URL.value() or None


def in_a_flow() -> bool:
    """Is this called by a flow?"""
    return FlowRunContext.get() is not None


def check_api() -> None:
    """Raises `PrefectError` where the API that is configured does not answer."""
    if api_url() is None:
        return  # a flow calls this one, with a server of its own
    try:
        error = within(REACH_SECONDS, partial(_unhealthy, get_client(sync_client=True)))
    except TimeoutError:
        raise PrefectError(f"{_place()} did not answer within {REACH_SECONDS:g} s; {_HINT}") from None
    if error is not None:
        raise PrefectError(f"{of_api(error)}; {_HINT}")


def _unhealthy(client: AbstractContextManager[SyncPrefectClient]) -> Exception | None:
    with client as started:
        return started.api_healthcheck()


def of_api(error: Exception) -> str:
    """What went wrong with the API, in one line that names it."""
    return f"{_place()}: {' '.join(str(error).split()) or type(error).__name__}"


_HINT = "start it, or unset PREFECT_API_URL and nobody watches"


def _place() -> str:
    return f"Prefect's API at {api_url() or 'its temporary server'}"
