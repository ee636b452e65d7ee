"""The Ray of a run on this machine is its user's alone: what listens where, who may join, what is left.

Its driver has lived through a warm-up on a document that kills whoever scores it.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.conftest import PYTHON
from tests.integration.processes import command_line, descendants, gone
from tests.support.ray_scripts import DRIVER, LISTENS, SCRIPT

KNOCK = """
import sys
from ray._raylet import GcsClient
print(len(GcsClient(address=sys.argv[1]).get_all_node_info(timeout=10)))
"""
"""What a node that joins does first."""


@dataclass(frozen=True)
class Running:
    """A driver with its Ray, its folders, and the environment it was started in."""

    driver: subprocess.Popen[str]
    gcs: str
    folder: Path
    home: Path
    env: dict[str, str]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    # Short, so that Ray's sockets fit into it.
    base = Path(tempfile.mkdtemp(prefix="c", dir="/tmp"))
    home = tmp_path_factory.mktemp("home")
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    env |= {"HOME": str(home), "TMPDIR": str(base), "RAY_AUTH_MODE": "disabled"}
    env["PYTHONPATH"] = str(Path(__file__).parents[2])  # workers import the model of the tests
    driver = subprocess.Popen(
        [PYTHON, "-c", DRIVER],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert driver.stdout is not None
    said = driver.stdout.readline()
    assert said, driver.communicate()[1]
    yield Running(driver, json.loads(said)["gcs"], base, home, env)
    driver.kill()
    driver.communicate(timeout=60)
    shutil.rmtree(base)


def _listening(pids: list[int]) -> set[str]:
    """Addresses, as the kernel writes them, on which the processes listen."""
    inodes = set()
    for pid in pids:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            try:
                inodes.add(str(entry.readlink()))
            except OSError:
                continue  # closed meanwhile
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/{pids[0]}/net/{table}").read_text().splitlines()[1:]
    ]
    return {row[1].partition(":")[0] for row in rows if row[3] == LISTENS and f"socket:[{row[9]}]" in inodes}


def _loopback(address: str) -> bool:
    """Is an address of /proc/net/tcp or tcp6 in 127.0.0.0/8, mapped into IPv6 or not, or ::1?"""
    raw = b"".join(int(address[i : i + 8], 16).to_bytes(4, "little") for i in range(0, len(address), 8))
    if len(raw) == 16 and raw != socket.inet_pton(socket.AF_INET6, "::1"):
        return raw[:12] == b"\0" * 10 + b"\xff\xff" and raw[12] == 127
    return len(raw) == 16 or raw[0] == 127


def test_addresses_are_read_as_the_kernel_writes_them() -> None:
    local = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")
    assert [_loopback(a) for a in local] == [True] * 3
    assert [_loopback(a) for a in ("00000000", "0" * 32, "020200C0")] == [False] * 3


def test_nothing_listens_outside_of_the_loopback_interface(running: Running) -> None:
    pids = [running.driver.pid, *descendants(running.driver.pid)]
    found = _listening(pids)
    assert found
    assert {address for address in found if not _loopback(address)} == set()


def test_only_who_has_the_token_is_let_in(running: Running) -> None:
    (folder,) = running.folder.iterdir()
    tokens = {
        "none": {},
        "wrong": {"RAY_AUTH_TOKEN": "0" * 64},
        "right": {"RAY_AUTH_TOKEN_PATH": str(folder / "token")},
    }
    knocks = {
        name: subprocess.Popen(
            [PYTHON, "-c", KNOCK, running.gcs],
            env=running.env | token | {"RAY_AUTH_MODE": "token" if token else "disabled"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name, token in tokens.items()
    }
    answers = {name: knock.communicate(timeout=120) for name, knock in knocks.items()}
    assert answers["right"][0] == "1\n", answers
    for name in ("none", "wrong"):
        assert answers[name][0] == ""
        assert "InvalidAuthToken" in answers[name][1], answers[name]


def test_a_cluster_with_another_token_is_one_message(running: Running) -> None:
    script = SCRIPT.format(address=running.gcs)
    env = running.env | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}
    found = subprocess.run([PYTHON, "-c", script], env=env, capture_output=True, text=True, check=False, timeout=120)
    assert found.returncode == 0, found.stderr
    assert f"the Ray cluster at {running.gcs} does not take this token; it wants its own" in found.stdout


def test_the_token_is_in_no_argument_log_or_file_that_others_can_read(running: Running) -> None:
    (folder,) = running.folder.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    token = (folder / "token").read_text()
    assert len(token) == 64
    assert stat.S_IMODE((folder / "token").stat().st_mode) == 0o600
    assert token not in "".join(map(command_line, descendants(running.driver.pid)))
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "token"]
    assert any("raylet" in path.name for path in files)
    assert [path for path in files if token.encode() in path.read_bytes()] == []
    assert list(running.home.iterdir()) == []


def test_nothing_is_left_at_the_end(running: Running) -> None:
    """The last test of this Ray."""
    below = descendants(running.driver.pid)
    _, said = running.driver.communicate("\n", timeout=60)
    assert running.driver.returncode == 0, said
    assert gone(below, seconds=20) == []
    assert list(running.folder.iterdir()) == []
    assert list(running.home.iterdir()) == []
