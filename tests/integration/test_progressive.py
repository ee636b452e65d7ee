"""Wrapped progressive sampling on real Ray: killed on one worker, taken up again on two, of which one is killed."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import pytest

from concord.flows.labelling.documents import read_documents
from concord.workers.corpus.plan import plan
from concord.workers.learning.search.progressive import TrialTally, rounds, sizes_of
from concord.workers.papers.canisius import trigram_trainer as trigram
from concord.workers.papers.canisius.settings import TrigramSettings
from concord.workers.papers.canisius.timbl import BASE
from concord.workers.papers.canisius.trigram_trials import Sample, chosen_of, grid, tried
from tests.integration.conftest import World
from tests.integration.processes import command_line, descendants, gone, wait_until, workers_of

GIVEN = {"learner": "ib1", "metric": "mvdm"}
"""Trials of TiMBL's share no distances, so that a search takes long enough to be killed twice."""


def wanted(world: World) -> tuple[bytes, dict[str, str | float]]:
    """The instance base of a model with what this process chooses, and that."""
    documents, _ = read_documents(plan(world.folder / "train"))
    settings = TrigramSettings.model_validate(GIVEN)
    every, sample = grid(settings), Sample.of(documents, settings)

    def attempt(size: int, numbers: Sequence[int]) -> dict[int, TrialTally]:
        return {number: tried(sample, [every[number]], size)[0] for number in numbers}

    *_, last = rounds(len(every), sizes_of(sample.tokens), attempt)
    trigram.train(documents, settings=every[last.best], out=world.folder / "plain")
    return (world.folder / "plain" / BASE).read_bytes(), chosen_of(every[last.best])


def searched_without_a_worker(world: World, *command: str) -> Any:
    """The answer of a search by two workers, one of which is killed while both have trials."""
    kept = world.folder / ".memory.trials"
    search = world.start(*command, "--workers", "2", "--json")
    lines = kept.read_bytes().count(b"\n")
    wait_until(lambda: len(workers_of(search.pid)) == 2 and kept.read_bytes().count(b"\n") > lines, search)
    os.kill(workers_of(search.pid)[0], signal.SIGKILL)
    answer, said = search.communicate(timeout=300)
    assert search.returncode == 0, said
    return json.loads(answer)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("timblapi") is None, reason="the extra memory is not installed: python3-timbl")
def test_a_search_that_is_killed_ends_with_the_same_model(world: World) -> None:
    command = ["train", "--corpus", "train", "--out", "memory", "--trainer", "trigram", "--effort", "best"]
    command += ["--no-consistency"]
    command += [f"--set={name}={value}" for name, value in GIVEN.items()]
    first = world.start(*command, "--workers", "1")
    kept = world.folder / ".memory.trials"
    deadline = time.monotonic() + 300
    while not kept.is_file() or kept.read_bytes().count(b"\n") < 5:
        assert first.poll() is None, "it ended too soon"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    # Ray's two agents need a minute to see that their node has gone; they hold no CPU and no data.
    below = [p for p in descendants(first.pid) if "Agent" not in command_line(p)]
    first.kill()
    first.communicate(timeout=60)
    assert gone(below, seconds=30) == []
    again = searched_without_a_worker(world, *command)
    assert not kept.exists()
    found = (world.folder / "memory" / BASE).read_bytes(), again["samples"][-1]["best"]
    assert found == wanted(world)
    assert len(again["samples"]) > 1
