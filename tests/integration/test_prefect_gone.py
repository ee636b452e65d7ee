"""A Prefect server that dies while a run that it watches is at work, alone or as all of the machine shuts down."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import World, markers
from tests.integration.processes import descendants, gone, wait_until, workers_of
from tests.integration.servers import prefect_server

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Watched:
    """A world whose runs a server of its own watches."""

    world: World
    server: subprocess.Popen[bytes]


@pytest.fixture
def watched(world: World, tmp_path: Path) -> Iterator[Watched]:
    own = replace(world, env=world.env | {"PREFECT_HOME": str(tmp_path / "prefect")})
    with prefect_server(tmp_path, own.env) as server:
        yield Watched(own.watched(server.api), server.process)


def at_work(world: World, out: str) -> subprocess.Popen[str]:
    """A run on two workers that has done its first shard."""
    run = world.start(*world.reprocess_command(out, "--workers", "2"))
    wait_until(lambda: markers(world, out) >= 1 and len(workers_of(run.pid)) == 2, run)
    return run


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_shutdown_that_takes_the_server_too_ends_the_run_in_one_line(
    watched: Watched, reference: Any, number: signal.Signals
) -> None:
    world, out = watched.world, f"shutdown-{number.name}"
    run = at_work(world, out)
    below = descendants(run.pid)
    watched.server.send_signal(number)
    run.send_signal(signal.SIGTERM)
    answer, said = run.communicate(timeout=240)
    assert (run.returncode, answer) == (143, ""), said
    assert "Traceback" not in said
    assert "terminated; the same command goes on where this one stopped" in said
    assert gone(below, seconds=30) == []
    alone = replace(world, env={name: value for name, value in world.env.items() if name != "PREFECT_API_URL"})
    assert alone.run(*world.reprocess_command(out, "--workers", "2"))["documents"] == reference["documents"]
    assert world.content(out) == world.content("reference")


def test_a_run_whose_server_dies_is_finished_and_says_that_nobody_knows(watched: Watched, reference: Any) -> None:
    world = watched.world
    run = at_work(world, "unwatched")
    watched.server.kill()
    answer, said = run.communicate(timeout=400)
    assert "Traceback" not in said
    assert "Prefect" in said
    assert run.returncode == 5, said
    assert reference["documents"] == 48, answer
    assert world.content("unwatched") == world.content("reference")
