"""A run that loses a worker, is told to end, loses its driver, and is given again until it is done."""

from __future__ import annotations

import os
import signal

from tests.integration.conftest import World, markers
from tests.integration.processes import command_line, descendants, gone, wait_until, workers_of


def labelled_through_kills(world: World, out: str, shards: int, *more: str) -> None:
    """`World.reprocess` into ``out``, of so many shards, by two workers: one is killed, then SIGTERM, then the driver
    is killed; the same command to the end does what is left."""
    command = world.reprocess_command(out, "--workers", "2", *more)
    first = world.start(*command)
    wait_until(lambda: markers(world, out) >= 1 and len(workers_of(first.pid)) == 2, first)
    os.kill(workers_of(first.pid)[0], signal.SIGKILL)
    done = markers(world, out)
    wait_until(lambda: markers(world, out) > done, first)
    below = descendants(first.pid)
    first.terminate()
    answer, said = first.communicate(timeout=60)
    assert (first.returncode, answer) == (143, ""), said
    assert "the same command goes on" in said
    assert gone(below, seconds=20) == []

    done = markers(world, out)
    second = world.start(*command)
    wait_until(lambda: markers(world, out) > done, second)
    # Ray's two agents need a minute to see that their node has gone; they hold no CPU and no data.
    below = [p for p in descendants(second.pid) if "Agent" not in command_line(p)]
    second.kill()
    second.communicate(timeout=60)
    assert gone(below, seconds=30) == []

    done = markers(world, out)
    assert 2 <= done < shards
    last = world.run(*command)
    assert (last["shards_skipped"], last["shards_done"]) == (done, shards - done)
