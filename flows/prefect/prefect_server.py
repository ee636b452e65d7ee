"""Prefect's API: whether it can be reached, and its temporary server, made to end with the process that started it."""

from __future__ import annotations

import logging
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from prefect.client.orchestration import get_client
from prefect.server.api.server import SubprocessASGIServer
from prefect.settings import PREFECT_API_URL, PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS

from flows.patience import within
from schemas.errors import ServiceError


def _errors_only(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR


# Its warning that the server has gone away holds the whole address, with a password. A filter, because
# Prefect's own set-up of logging, at the first flow, takes levels back and leaves filters.
logging.getLogger("prefect.events.clients").addFilter(_errors_only)

REACH_SECONDS = 20.0
"""How long Prefect's API may take to say that it is there, before anything else is begun."""

_END_WITH_STDIN = ("sh", "-c", 'read -r _; kill "$0"')
"""Ends the process it is given once its own input ends, as it does when the process at the other end is gone."""


class PrefectError(ServiceError):
    """Prefect's API could not be reached, or its temporary server did not start."""


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Processes started in the block never get what a terminal sends to all of its foreground: Ctrl-C, its own end.

    That is for the driver, which tells the server how the run ended and then ends it in good order.
    """
    former = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


class GuardedServer(SubprocessASGIServer):
    """The temporary server with a guard beside it.

    Prefect ends its server when Python exits, so one whose driver was killed with SIGKILL would run for ever.
    """

    _guard: subprocess.Popen[bytes] | None = None

    def _run_uvicorn_command(self) -> subprocess.Popen[Any]:
        self._dismiss()
        with _deaf_children():
            server = super()._run_uvicorn_command()
        self._guard = subprocess.Popen(  # noqa: S603 — the command is the constant above and a number
            (*_END_WITH_STDIN, str(server.pid)),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return server

    def start(self, timeout: int | None = None) -> None:
        """Starts the server. Raises `PrefectError` where it does not answer in time, in seconds."""
        seconds = timeout or PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS.value()
        try:
            super().start(timeout)
        except (RuntimeError, httpx.HTTPError):
            raise PrefectError(
                f"Prefect's temporary server did not start within {seconds} s; "
                "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS gives it longer"
            ) from None

    def stop(self) -> None:
        """Ends the server, then its guard."""
        super().stop()
        self._dismiss()

    def _dismiss(self) -> None:
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()
            self._guard = None


def guard_server() -> None:
    """Makes the temporary server a guarded one; none is started here, and none where a server is configured.

    Call it before the first flow: Prefect makes the one object that stands for the server at its first use.
    """
    if not PREFECT_API_URL.value():
        GuardedServer()


def check_api() -> None:
    """Raises `PrefectError` where the API that is configured does not answer; starts the temporary server otherwise."""
    client = get_client(sync_client=True)
    if not PREFECT_API_URL.value():
        return
    try:
        error = within(REACH_SECONDS, client.api_healthcheck)
    except TimeoutError:
        raise PrefectError(f"{_place()} did not answer within {REACH_SECONDS:g} s; {_HINT}") from None
    if error is not None:
        raise PrefectError(f"{of_api(error)}; {_HINT}")


def of_api(error: Exception) -> str:
    """What went wrong with the API, in one line that names it."""
    return f"{_place()}: {' '.join(str(error).split()) or type(error).__name__}"


_HINT = "start it, or unset PREFECT_API_URL and a temporary server is started"


def _place() -> str:
    return f"Prefect's API at {PREFECT_API_URL.value() or 'its temporary server'}"
