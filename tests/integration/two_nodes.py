"""A Ray cluster of two nodes on this machine, behind a token: one of them can be killed, and others added."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

NODES = """
import sys
from ray.cluster_utils import Cluster
made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
other = made.add_node(num_cpus=1)
print(made.address, flush=True)
for line in sys.stdin:
    done, _, path = line.strip().partition(" ")
    if done == "kill":
        made.remove_node(other, allow_graceful=False)
    else:
        made.add_node(num_cpus=1, env_vars={"PYTHONPATH": path} if path else None)
    print(done, flush=True)
made.shutdown()
"""

ACTORS = """
import ray, sys
from ray._private.state import actors
ray.init(sys.argv[1], log_to_driver=False, logging_level="ERROR")
states = [actor["State"] for actor in actors().values()]
print(sum(state != "DEAD" for state in states), len(states))
"""


class TwoNodes(NamedTuple):
    """The cluster: its address, what its users have in their environment, and the process that owns it."""

    address: str
    environment: dict[str, str]
    owner: subprocess.Popen[str]

    def actors(self) -> tuple[int, int]:
        """How many actors live on both nodes, and how many there ever were."""
        command, env = [sys.executable, "-c", ACTORS, self.address], os.environ | self.environment
        said = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=120).stdout
        alive, every = map(int, said.split())
        return alive, every

    def kill_node(self) -> None:
        """Kills the node that is not the head, with all that runs on it."""
        self._do("kill")

    def add_node(self, code: Path | None = None) -> None:
        """Adds a node of one CPU, whose workers import what is in the folder ``code`` before what is installed."""
        self._do("add" if code is None else f"add {code}")

    def _do(self, line: str) -> None:
        assert self.owner.stdin is not None
        assert self.owner.stdout is not None
        self.owner.stdin.write(f"{line}\n")
        self.owner.stdin.flush()
        assert self.owner.stdout.readline().split() == line.split()[:1]


@contextmanager
def two_nodes(env: Mapping[str, str]) -> Iterator[TwoNodes]:
    """Runs in an environment; each node has one CPU."""
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    # Short, so that Ray's sockets fit into it; and no file of another cluster's address is written over.
    with (
        tempfile.TemporaryDirectory(dir="/tmp", prefix="h", ignore_cleanup_errors=True) as folder,
        subprocess.Popen(
            [sys.executable, "-c", NODES],
            env={**env, **token, "RAY_TMPDIR": folder, "RAY_worker_niceness": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as owner,
    ):
        assert owner.stdout is not None
        address = owner.stdout.readline().strip()
        assert address, owner.communicate()[1]
        try:
            yield TwoNodes(address, token, owner)
        finally:
            owner.communicate(timeout=120)
