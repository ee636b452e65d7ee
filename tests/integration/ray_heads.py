"""Heads of Ray clusters of one node, each behind a token of its own."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

from tests.integration.processes import descendants
from tests.integration.servers import free_port


class Head(NamedTuple):
    """A head of a cluster of one node, which knows a token."""

    address: str
    environment: dict[str, str]
    pids: list[int]


@contextmanager
def ray_head(env: Mapping[str, str], *, cpus: int, dashboard: int | None = None) -> Iterator[Head]:
    """Runs in an environment; killed at the end of the block with all that it started. Takes jobs at the port of its
    dashboard, if it has one.
    """
    shown = ["--include-dashboard", "false"]
    if dashboard is not None:
        shown = ["--dashboard-port", str(dashboard), "--dashboard-agent-listen-port", str(free_port())]
    port, token = free_port(), {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    # Short, so that Ray's sockets fit into it.
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="h", ignore_cleanup_errors=True) as folder:
        command = ("-m", "ray.scripts.scripts", "start", "--head", "--block", "--disable-usage-stats")
        place = ("--node-ip-address", "127.0.0.1")
        started = subprocess.Popen(
            [
                sys.executable,
                *command,
                *place,
                "--port",
                str(port),
                "--num-cpus",
                str(cpus),
                "--temp-dir",
                folder,
                *shown,
            ],
            env={**env, **token},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            assert started.stdout is not None
            said: list[str] = []
            while "Ray runtime started" not in (line := started.stdout.readline()):
                said.append(line)
                assert line, said
            yield Head(f"127.0.0.1:{port}", token, [started.pid, *descendants(started.pid)])
        finally:
            for pid in [*descendants(started.pid), started.pid]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            started.communicate(timeout=60)
