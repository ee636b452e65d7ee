"""Heads of Ray clusters of one node, which jobs can be handed in to; each behind a token of its own, or behind none."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

from tests.integration.processes import descendants
from tests.integration.servers import free_port


class Head(NamedTuple):
    """A head of a cluster of one node, and what its users have in their environment."""

    address: str
    environment: dict[str, str]
    pids: list[int]


@contextmanager
def ray_head(env: Mapping[str, str], *, cpus: int, dashboard: int | None = None, token: bool = True) -> Iterator[Head]:
    """Runs in an environment; killed at the end of the block with all that it started. Takes jobs at the port of its
    dashboard, if it has one. Without ``token`` whoever reaches it may use it.
    """
    shown = ["--include-dashboard", "false"]
    if dashboard is not None:
        shown = ["--dashboard-port", str(dashboard), "--dashboard-agent-listen-port", str(free_port())]
    port, way = free_port(), {"RAY_AUTH_MODE": "disabled"}
    if token:
        way = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
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
            env={**env, **way},
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
            if dashboard is not None:
                _wait_for_jobs(dashboard, {**env, **way})
            yield Head(f"127.0.0.1:{port}", way, [started.pid, *descendants(started.pid)])
        finally:
            for pid in [*descendants(started.pid), started.pid]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            started.communicate(timeout=60)


def submission(port: int, *command: str) -> list[str]:
    """The command that hands in a job at the port of a dashboard, and waits for its end."""
    return [*_submit(port), "--", *command]


def _submit(port: int) -> list[str]:
    return [sys.executable, "-m", "ray.scripts.scripts", "job", "submit", "--address", f"http://127.0.0.1:{port}"]


def _wait_for_jobs(port: int, env: Mapping[str, str]) -> None:
    """A cluster answers some time before it has an agent that starts jobs."""
    deadline = time.monotonic() + 180
    while subprocess.call([*_submit(port), "--no-wait", "--", "true"], env=env):
        assert time.monotonic() < deadline, "the cluster's agent for jobs does not answer"
        time.sleep(0.3)
