"""Ray that dies in mid-run, head and node at once: one line and an exit code, before its library ends the driver."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.integration.conftest import World, markers
from tests.integration.processes import command_line, descendants, gone, wait_until
from tests.integration.ray_heads import Head, ray_head

LONG = ("--set", "chains=20", "--set", "work=null", "--workers", "1")
"""A run that cannot end by itself before Ray is dead."""

PARTS = ("gcs/gcs_server", "raylet/raylet ")

pytestmark = pytest.mark.slow


@pytest.fixture
def head(world: World) -> Iterator[Head]:
    with ray_head(world.env, cpus=1) as found:
        yield found


def end_ray(pids: list[int]) -> None:
    killed = [pid for pid in pids if any(part in command_line(pid) for part in PARTS)]
    assert len(killed) == len(PARTS)
    for pid in killed:
        os.kill(pid, signal.SIGKILL)


def ended_in_one_line(world: World, out: str, process: subprocess.Popen[str]) -> str:
    """The line."""
    answer, said = process.communicate(timeout=50)  # Ray's library ends it after 60 seconds, with another code
    assert (process.returncode, answer) == (5, ""), said
    (line,) = [line for line in said.splitlines() if line.startswith("concord: ")]
    assert "Traceback" not in said
    assert "does not answer any more" in line
    assert "the same command does what is not done yet" in line
    assert markers(world, out) >= 1
    assert not (world.folder / out / "manifest.json").exists()
    return line


def test_a_cluster_that_dies_in_mid_run_is_one_line(world: World, trained: object, head: Head) -> None:
    assert trained
    cluster = World(world.folder, world.env | head.environment, world.prefect)
    process = cluster.start(*world.reprocess_command("dead-head", *LONG, "--ray", head.address))
    wait_until(lambda: markers(world, "dead-head") >= 1, process, seconds=300)
    end_ray(head.pids)
    port = head.address.rpartition(":")[2]  # Ray may know the loopback interface by the machine's own address
    assert f":{port} does not answer" in ended_in_one_line(world, "dead-head", process)


def test_a_private_ray_that_dies_in_mid_run_is_one_line_and_leaves_nothing(world: World, trained: object) -> None:
    assert trained
    process = world.start(*world.reprocess_command("dead-ray", *LONG, "--workers", "2"))
    wait_until(lambda: markers(world, "dead-ray") >= 1, process, seconds=300)
    below = descendants(process.pid)
    end_ray(below)
    assert "Ray at 127.0.0.1:" in ended_in_one_line(world, "dead-ray", process)
    assert gone(below, seconds=90) == []  # workers that Ray had not yet given up look for their head for 60 seconds
