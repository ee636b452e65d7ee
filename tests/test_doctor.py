"""`concord doctor`: each thing that is wrong is a line that says what to do, and nothing makes it wait for long."""

from __future__ import annotations

import json
import re
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from concord.flows.cli.app import app
from concord.flows.cli.failures import Exit
from concord.flows.commands import doctor
from concord.workers.compiling import kernel_folder


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCORD_HOME", str(tmp_path / "home"))
    for name in ("MLFLOW_TRACKING_URI", "PREFECT_API_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(doctor, "is_watched", lambda: False)


def asked(out: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and what was found by name."""
    done = CliRunner().invoke(app, ["doctor", "--out", str(out), "--json", *options])
    found = json.loads(done.stdout)["findings"]
    return done.exit_code, {finding["name"]: finding for finding in found}


def test_where_all_is_well_there_is_a_line_for_everything(tmp_path: Path) -> None:
    code, found = asked(tmp_path / "not" / "yet")
    assert code == Exit.OK, found
    assert list(found) == ["versions", "kernels", "output", "own files", "clocks", "Ray", "Prefect", "MLflow"]
    assert all(finding["remedy"] is None for finding in found.values())
    assert list(tmp_path.iterdir()) == []
    told = CliRunner().invoke(app, ["doctor", "--out", str(tmp_path)])
    assert [line[:7] for line in told.stdout.splitlines()[:-1]] == ["ok     "] * len(found)
    assert told.stdout.splitlines()[-1].startswith(f"{len(found)} things")


def test_compiled_kernels_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kernel_folder, "kernel_folder", lambda: tmp_path)
    monkeypatch.setattr(kernel_folder, "known_digests", lambda _: {"a.b": "1" * 64, "a.c": "2" * 64})
    (tmp_path / f"a.b-{'1' * kernel_folder.LETTERS}.py311.1.nbi").touch()
    assert asked(tmp_path)[1]["kernels"]["told"].startswith(f"1 of 2 compiled in {tmp_path}; ")


@pytest.mark.parametrize(
    ("change", "name", "told", "remedy"),
    [
        ({"LEAST_FREE": 1 << 60}, "output", "GiB free", "free some space"),
        ({"LEAST_SHARED": 1 << 60}, "Ray", "MiB of shared memory", "--shm-size"),
        ({"STORAGE_SKEW": -1.0}, "clocks", "the output's storage", "NTP"),
        ({"OLDEST": datetime.fromisoformat("9999-01-01T00:00Z")}, "clocks", " here", "set this machine's clock"),
        ({"version": lambda name: "0.0.1"}, "versions", "numba is 0.0.1, want ", "install concord again"),
    ],
)
def test_what_is_wrong_is_told_with_what_to_do(
    change: dict[str, Any], name: str, told: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part, value in change.items():
        monkeypatch.setattr(doctor, part, value)
    code, found = asked(tmp_path)
    assert code == Exit.INPUT
    assert told in found[name]["told"]
    assert remedy in found[name]["remedy"]
    text = CliRunner().invoke(app, ["doctor", "--out", str(tmp_path)]).stdout
    assert f"WRONG  {name}: " in text


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    code, found = asked(Path("/proc/concord"))
    assert code == Exit.INPUT
    assert found["output"]["told"].startswith("/proc/concord: cannot be written (")


def test_mlflow_s_file_is_read(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "ml.db") as file:
        file.execute("CREATE TABLE runs (id)")
        file.execute("CREATE TABLE model_versions (id)")
        file.execute("INSERT INTO runs VALUES (1)")
    file.close()
    (tmp_path / "ml.db").rename(tmp_path / "ml #b.db")
    found = asked(tmp_path, "--tracking", f"sqlite:///{tmp_path}/ml #b.db")[1]
    assert "1 runs, 0 versions of models" in found["MLflow"]["told"]
    (tmp_path / "broken.db").write_bytes(b"no database at all" * 100)
    code, found = asked(tmp_path, "--tracking", f"sqlite:///{tmp_path}/broken.db")
    assert code == Exit.INPUT
    assert "cannot be read (file is not a database)" in found["MLflow"]["told"]


@pytest.fixture
def server() -> Iterator[str]:
    """An MLflow server whose clock is an hour late, under a password."""

    class Late(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.headers.get("Authorization") else 401)
            self.end_headers()

        def date_time_string(self, timestamp: float | None = None) -> str:
            return super().date_time_string(time.time() - 3600)

        def log_message(self, *args: Any) -> None:
            pass

    served = HTTPServer(("127.0.0.1", 0), Late)
    thread = threading.Thread(target=served.serve_forever)
    thread.start()
    yield f"127.0.0.1:{served.server_port}"
    served.shutdown()
    thread.join()
    served.server_close()


def test_servers_are_asked_and_their_clocks_compared(server: str, tmp_path: Path) -> None:
    code, found = asked(tmp_path, "--tracking", f"http://ada:S3CRET@{server}")
    assert (code, found["MLflow"]["remedy"]) == (Exit.INPUT, None)
    assert re.search(r"MLflow's server -(3599|36\d\d)\.\d s", found["clocks"]["told"])  # and what a slow machine adds
    assert "S3CRET" not in json.dumps(found)
    found = asked(tmp_path, "--tracking", f"http://{server}")[1]
    assert "answers with 401" in found["MLflow"]["told"]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    found = asked(tmp_path, "--tracking", f"http://127.0.0.1:{port}", "--ray", f"127.0.0.1:{port}")[1]
    assert "no answer" in found["MLflow"]["told"]
    assert f"no Ray cluster at 127.0.0.1:{port}" in found["Ray"]["told"]


def test_what_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(doctor, "_folder", lambda _: str(threading.Event().wait(2)))
    code, found = asked(tmp_path)
    assert code == Exit.INPUT
    assert found["output"]["told"] == "no answer within 0.1 s"
