"""Heads of Ray clusters, which jobs can be handed in to; each behind a token of its own, or behind none. A cluster has
one node, or those that Ray's autoscaler adds on this machine when they are asked for.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.integration.nodes_here import NodesHere
from tests.integration.processes import descendants
from tests.integration.servers import free_port

AUTOSCALER = {"RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1"}
"""The environment of a head whose autoscaler starts nodes on this machine, and looks after them every second."""

NO_COMMANDS = ("initialization", "setup", "head_setup", "worker_setup", "head_start_ray", "worker_start_ray")
"""What Ray would do on real machines."""


class Head(NamedTuple):
    """A head of a cluster, and what its users have in their environment."""

    address: str
    environment: dict[str, str]
    pids: list[int]


@contextmanager
def ray_head(
    env: Mapping[str, str],
    *,
    cpus: int,
    dashboard: int | None = None,
    token: bool = True,
    others: tuple[int, int] | None = None,
) -> Iterator[Head]:
    """Runs in an environment; killed at the end of the block with all that it started. Takes jobs at the port of its
    dashboard, if it has one. Without ``token`` whoever reaches it may use it. ``others`` come when they are asked for:
    the largest number of these nodes, and the CPUs of each.
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
        place = ["--node-ip-address", "127.0.0.1"]
        if others is not None:
            written = Path(folder) / "autoscaler.json"
            written.write_text(json.dumps(_autoscaling(f"127.0.0.1:{port}", folder, *others)))
            place += ["--autoscaling-config", str(written)]
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
            env={**env, **way, **({} if others is None else AUTOSCALER)},
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


def _autoscaling(head: str, folder: str, most: int, cpus: int) -> dict[str, Any]:
    """The autoscaler's configuration: as that of Ray's own tests, which its package leaves out."""
    provider = {
        "type": "external",
        "module": f"{NodesHere.__module__}.{NodesHere.__name__}",
        "folder": folder,
        "gcs_address": head,
        "head_node_id": "f" * 51 + "00000",
        "use_node_id_as_ip": True,
        "disable_node_updaters": True,
        "disable_launch_config_check": True,
    }
    return {
        "cluster_name": "growing",
        "max_workers": most,
        "provider": provider,
        "available_node_types": {
            "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
            "worker": {
                "resources": {"CPU": cpus, "memory": cpus << 30},
                "node_config": {},
                "min_workers": 0,
                "max_workers": most,
            },
        },
        "head_node_type": "ray.head.default",
        "upscaling_speed": 100.0,
        "idle_timeout_minutes": 0.1,
        "auth": {},
        "docker": {},
        "file_mounts": {},
        "cluster_synced_files": [],
        "file_mounts_sync_continuously": False,
        "rsync_exclude": [],
        "rsync_filter": [],
        **{f"{name}_commands": [] for name in NO_COMMANDS},
    }


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
