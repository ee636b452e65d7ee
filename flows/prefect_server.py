"""Prefect's temporary server, made to end with the process that started it."""

from __future__ import annotations

import subprocess
from typing import Any

from prefect.server.api.server import SubprocessASGIServer
from prefect.settings import PREFECT_API_URL

_END_WITH_STDIN = ("sh", "-c", 'read -r _; kill "$0"')
"""Ends the process it is given once its own input ends, as it does when the process at the other end is gone."""


class GuardedServer(SubprocessASGIServer):
    """The temporary server with a guard beside it.

    Prefect ends its server when Python exits, so one whose driver was killed with SIGKILL would run for ever.
    """

    _guard: subprocess.Popen[bytes] | None = None

    def _run_uvicorn_command(self) -> subprocess.Popen[Any]:
        self._dismiss()
        server = super()._run_uvicorn_command()
        # A session of its own: Ctrl-C in the terminal is for the driver, which then ends the server in good order.
        self._guard = subprocess.Popen(  # noqa: S603 — the command is the constant above and a number
            (*_END_WITH_STDIN, str(server.pid)),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return server

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
