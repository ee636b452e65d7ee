"""Constraint-driven learning as a user drives it, on real Ray, killed in the midst of its cycles."""

from __future__ import annotations

import os
import random
import signal
from contextlib import nullcontext

import pytest

import concord.flows.cluster.cluster
import concord.flows.labelling.label_corpus
import concord.flows.tracking.tracking
import concord.flows.training.learn_from_pool
from concord.flows.labelling.label_corpus import label_corpus
from concord.flows.training.learn_from_pool import learn
from concord.schemas.codl import CodlReport, CodlSettings
from concord.schemas.learning_requests import CodlRequest
from concord.schemas.run import DEFAULT_RUN
from concord.workers.labelling.labelled import check_settings
from tests.integration.citations import labelled, write_citations
from tests.integration.conftest import World
from tests.integration.processes import command_line, descendants, gone, wait_until, workers_of
from tests.support.in_process import Here
from tests.support.made_tracking import untracked


@pytest.fixture
def corpora(world: World) -> None:
    write_citations(world, pool=90)


def undisturbed(world: World, out: str, cycles: int, monkeypatch: pytest.MonkeyPatch) -> CodlReport:
    """The same in this process, without Ray and MLflow."""
    monkeypatch.setattr(concord.flows.training.learn_from_pool, "Tracking", untracked([]))
    monkeypatch.setattr(concord.flows.tracking.tracking, "Tracking", untracked([]))
    monkeypatch.setattr(concord.flows.cluster.cluster, "cluster", lambda *_, **__: nullcontext(Here(None)))
    monkeypatch.setattr(concord.flows.training.learn_from_pool, "label_corpus", label_corpus)
    request = CodlRequest(
        corpus=str(world.folder / "few"),
        pool=str(world.folder / "pool"),
        out=str(world.folder / out),
        constraints=str(world.folder / "rules.yaml"),
        held_out=None,
        settings=CodlSettings(cycles=cycles, gamma=0.5),
        labelling=check_settings(DEFAULT_RUN),
        shard_bytes=1 << 10,
    )
    report: CodlReport = learn(request)
    return report


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "cycles"), [(0, 1), (1, 2), (2, 2)])
@pytest.mark.usefixtures("corpora")
def test_killed_at_random_moments_and_resumed_it_has_the_same_bytes(
    world: World, monkeypatch: pytest.MonkeyPatch, seed: int, cycles: int
) -> None:
    """A Ray worker when some number of shards are done, the driver at some later one."""
    out, whole = f"killed-{seed}", f"whole-{seed}"
    wanted = undisturbed(world, whole, cycles, monkeypatch)
    shards, rng = labelled(world, whole), random.Random(seed)
    # In the first half: shards are small, and some are done between a look and the kill.
    worker, driver = sorted(rng.sample(range(1, shards // 2), 2))
    options = ("--set", f"cycles={cycles}", "--set", "gamma=0.5", "--shard-kib", "1", "--workers", "1")
    places = ("--corpus", "few", "--pool", "pool", "--constraints", "rules.yaml", "--out", out)

    process = world.start("codl", *places, *options)
    wait_until(lambda: labelled(world, out) >= worker and bool(workers_of(process.pid)), process, seconds=300)
    os.kill(workers_of(process.pid)[0], signal.SIGKILL)
    wait_until(lambda: labelled(world, out) >= driver, process, seconds=300)
    below = [p for p in descendants(process.pid) if "Agent" not in command_line(p)]
    process.kill()
    process.communicate(timeout=60)
    assert gone(below, seconds=30) == []
    assert 0 < labelled(world, out) < shards

    report = world.quick().run("codl", *places, *options, "--json")
    assert report["cycles"] == [cycle.model_dump() for cycle in wanted.cycles]
    assert world.content(out) == world.content(whole)
