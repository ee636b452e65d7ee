"""Reaching a cluster, without one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

from tests.support.ray_scripts import SCRIPT


def test_a_cluster_that_is_not_there_is_one_message_at_once() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    started = time.monotonic()
    script = SCRIPT.format(address=f"127.0.0.1:{port}")
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert f"no Ray cluster at 127.0.0.1:{port}" in found.stdout
    assert time.monotonic() - started < 60


def test_another_service_at_the_address_is_one_message_within_the_time_limit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        started = time.monotonic()
        script = "import concord.flows.cluster.cluster" + SCRIPT.format(address=f"127.0.0.1:{port}")
        env = os.environ | {"RAY_AUTH_TOKEN": "0" * 64}
        found = subprocess.run(
            [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True, timeout=120
        )
    assert found.stdout == f"what listens at 127.0.0.1:{port} does not answer as a Ray cluster; check the address\n"
    assert time.monotonic() - started < 60
