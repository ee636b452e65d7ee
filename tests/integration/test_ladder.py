"""The ladder of `train --effort best` on real Ray: two workers choose what this process chooses, byte for byte."""

from __future__ import annotations

from tests.integration.conftest import World

QUICK = ("--features", "kinds", "--set", "passes=2", "--set", "c2=0.3", "--set", "dropout=0.1", "--no-consistency")


def test_workers_choose_what_one_process_chooses(world: World) -> None:
    command = ["train", "--corpus", "train", "--effort", "best", *QUICK, "--json"]
    alone = world.unwatched().run(*command, "--out", "alone")
    together = world.unwatched().run_on_ray(*command, "--workers", "2", "--out", "together")
    assert together["model_digest"] == alone["model_digest"]
    steps = [
        [{k: v for k, v in step.items() if k != "cpu_seconds"} for step in one["search"]["steps"]]
        for one in (alone, together)
    ]
    assert steps[0] == steps[1]
    assert len(steps[0]) >= 4
    assert not list(world.folder.glob(".*.trials"))
