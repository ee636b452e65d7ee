"""Servers of Prefect and MLflow that a test has for itself, and may kill."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

SECRET = "S3CRET/of+ours"
"""In every place where an address may hold one."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert process.poll() is None, "the server ended"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.3)
    raise AssertionError(f"{url} does not answer")


class PrefectServer(NamedTuple):
    """A Prefect server, whose database is below the ``PREFECT_HOME`` of its environment."""

    api: str
    process: subprocess.Popen[bytes]


@contextmanager
def prefect_server(
    folder: Path, env: Mapping[str, str], *, port: int | None = None, more: Sequence[str] = ("--no-ui",)
) -> Iterator[PrefectServer]:
    """Runs in ``folder``; asked to end at the end of the block, if it is still there. ``more``: its other options."""
    port = port or free_port()
    api = f"http://127.0.0.1:{port}/api"
    process = subprocess.Popen(
        [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port), *more],
        env={name: value for name, value in env.items() if name != "PREFECT_API_URL"} | {"PREFECT_UI_API_URL": api},
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(f"{api}/health", process)
        yield PrefectServer(api, process)
    finally:
        process.terminate()
        process.wait(30)


class MlflowServer(NamedTuple):
    """An MLflow server of its own; whoever comes with a password may come."""

    uri: str
    shown: str
    folder: Path
    process: subprocess.Popen[bytes]

    def signal(self, number: int) -> None:
        """To the server and its worker processes."""
        os.killpg(self.process.pid, number)

    def query(self, text: str, value: str) -> dict[str, Any]:
        with closing(sqlite3.connect(self.folder / "mlflow.db")) as store:
            return dict(store.execute(text, [value]).fetchall())

    def runs(self, out: Path) -> dict[str, str]:
        """Status of the runs into a folder, by run id, the first begun first."""
        return self.query(
            "select r.run_uuid, r.status from runs r join tags t on r.run_uuid = t.run_uuid "
            "where t.key = 'predictions' and t.value = ? order by r.start_time",
            str(out),
        )


@contextmanager
def mlflow_server(folder: Path, env: Mapping[str, str], *, port: int | None = None) -> Iterator[MlflowServer]:
    """Keeps its runs in ``folder``, where another one may have been before; killed at the end of the block."""
    port = port or free_port()
    folder.mkdir(exist_ok=True)
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "mlflow", "server", "--port", str(port), "--workers", "1"),
            *("--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}"),
            *("--artifacts-destination", str(folder / "artifacts")),
        ],
        env={**env, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"},
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    host = f"127.0.0.1:{port}"
    server = MlflowServer(f"http://ada:{quote(SECRET, safe='')}@{host}", f"http://***@{host}", folder, process)
    try:
        wait_for(f"http://{host}/health", process)
        yield server
    finally:
        if process.poll() is None:
            server.signal(signal.SIGKILL)
        process.wait(30)
