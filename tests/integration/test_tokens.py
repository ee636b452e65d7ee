"""Clusters that want no token, ours or another one, asked before Ray is; from a process that has set nothing."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.conftest import PYTHON

OURS, OTHER = "a" * 64, "b" * 64

HEAD = """
import sys
from ray.cluster_utils import Cluster
made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
print(made.address, flush=True)
sys.stdin.readline()
made.shutdown()
"""

NOTEBOOK = """
import os, sys
before = dict(os.environ)
from concord.flows.cluster.cluster import cluster
from concord.flows.cluster.deaths import ClusterError
try:
    with cluster(sys.argv[1], workers=1) as running:
        print("cpus", running.workers, file=sys.__stdout__)
except ClusterError as error:
    print(error)
changed = {name for name in {*before, *os.environ} if before.get(name) != os.environ.get(name)}
print(changed - {"RAY_CLIENT_MODE", "PYTHONBREAKPOINT"})
"""
"""Ray sets the two variables itself, when it is imported and when it is connected."""


@dataclass(frozen=True)
class Head:
    """A cluster's address, and the environment of who uses it: its home, and Ray's folder there."""

    address: str
    env: dict[str, str]

    def connect(self, address: str | None = None, **more: str) -> list[str]:
        """What a notebook is told that connects with these settings of Ray's, and what has changed around it."""
        done = subprocess.run(
            [PYTHON, "-c", NOTEBOOK, self.address if address is None else address],
            env=self.env | more,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()


@contextmanager
def head(home: Path, **settings: str) -> Iterator[Head]:
    env = {name: text for name, text in os.environ.items() if not name.startswith("RAY_")}
    env |= {"HOME": str(home), "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(
        [PYTHON, "-c", HEAD],
        env=env | settings,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address, process.communicate()[1]
        try:
            yield Head(address, env)
        finally:
            process.communicate("\n", timeout=120)


@pytest.mark.slow
def test_a_cluster_without_a_token_is_used_without_one(tmp_path: Path) -> None:
    with head(tmp_path, RAY_AUTH_MODE="disabled") as made:
        assert made.connect() == ["cpus 1", "set()"]
        assert made.connect("auto", RAY_ADDRESS=made.address) == ["cpus 1", "set()"]
        # One that is there all the same, as a local Ray leaves it in the home folder, does no harm.
        assert made.connect(RAY_AUTH_TOKEN=OTHER) == ["cpus 1", "set()"]


@pytest.mark.slow
@pytest.mark.about("concord/flows/cluster/")
def test_a_cluster_with_a_token_is_used_with_it_and_says_what_is_wrong_otherwise(tmp_path: Path) -> None:
    with head(tmp_path, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=OURS) as made:
        assert made.connect(RAY_AUTH_TOKEN=OURS) == ["cpus 1", "set()"]
        for told in (made.connect(), made.connect("", RAY_ADDRESS=made.address)):
            (said, changed) = told
            assert said.startswith(f"the Ray cluster at {made.address} wants a token: give it in RAY_AUTH_TOKEN or")
            assert changed == "set()"
        for address in (made.address, "auto"):
            (said, _) = made.connect(address, RAY_AUTH_TOKEN=OTHER, RAY_ADDRESS=made.address)
            assert said.startswith(f"the Ray cluster at {address} does not take this token; it wants its own")
        (said, _) = made.connect(RAY_AUTH_MODE="disabled")
        assert "RAY_AUTH_MODE=disabled sends none; unset it" in said


@pytest.mark.slow
def test_auto_where_no_cluster_runs_is_one_line(tmp_path: Path) -> None:
    env = {name: text for name, text in os.environ.items() if not name.startswith("RAY_")}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{probe.getsockname()[1]}"
    started = time.monotonic()
    (said, _) = Head("auto", env | {"HOME": str(tmp_path)}).connect(RAY_ADDRESS=nobody)
    assert said == "what listens at auto does not answer as a Ray cluster; check the address"
    assert time.monotonic() - started < 90


@pytest.mark.parametrize("greeting", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_a_silent_port_and_another_service_are_told_within_seconds(greeting: bytes, tmp_path: Path) -> None:
    env = {name: text for name, text in os.environ.items() if not name.startswith("RAY_")}
    script = (
        "import sys, time\nfrom concord.flows.cluster.reaching import reach\n"
        "from concord.flows.cluster.deaths import ClusterError\n"
        "started = time.monotonic()\ntry: reach(sys.argv[1])\n"
        "except ClusterError as error: print(error, time.monotonic() - started < 15, sep='|')\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as service:
        address = f"127.0.0.1:{service.getsockname()[1]}"
        with subprocess.Popen(
            [PYTHON, "-c", script, address], env=env | {"HOME": str(tmp_path)}, stdout=subprocess.PIPE, text=True
        ) as asks:
            connection, _ = service.accept()
            with connection:
                connection.sendall(greeting)
                said = asks.communicate(timeout=120)[0]
    assert said == f"what listens at {address} does not answer as a Ray cluster; check the address|True\n"
