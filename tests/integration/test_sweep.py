"""Sweeps on real Ray: killed and taken up again, on one worker and on two, with failures and without any work."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

import concord
from tests.integration.conftest import World
from tests.integration.processes import command_line, descendants, gone, wait_until, workers_of

CELLS = "sweeps/{}/cells"


def sweep_file(world: World, name: str, **changes: Any) -> str:
    """A sweep file of 24 cells by two models, and its name."""
    content = {
        "corpora": {"news": {"train": "train", "test": "test"}},
        "models": {
            "core": {"trainer": "perceptron", "options": {"features": "core"}},
            "small": {"trainer": "perceptron", "options": {"features": "core", "passes": 1}},
        },
        "constraints": {"none": [], "rules": ["rules.yaml"]},
        "engines": {
            "short": {"engine": "gibbs", "options": {"sweeps": 100}},
            "gibbs": {"options": {"sweeps": 400}},
            "certify": {},
        },
        "seeds": [0, 1],
    }
    (world.folder / "rules.yaml").write_text(
        "constraints: [{template: appears_once, name: once, labels: [PER], weight: 1}]\n"
    )
    (world.folder / name).write_text(yaml.safe_dump(content | changes))
    return name


def files(folder: Path) -> dict[str, bytes]:
    """The results of a sweep by name, without times."""
    return {
        path.name: path.read_bytes() for path in sorted(folder.glob("**/*.parquet")) if path.name != "times.parquet"
    }


@pytest.mark.slow
def test_failures_are_rows_and_nothing_is_done_twice(world: World) -> None:
    name = sweep_file(world, "some.yaml", sizes=[5, 10_000], seeds=[0], engines={"viterbi": {}})
    given = ["sweep", "run", name, "--out", "sweeps/some", "--json"]
    report = world.run_on_ray(*given, code=4)
    assert (report["cells"], report["done"], len(report["failed"]), report["models"]) == (8, 4, 4, 2)
    assert all("size 10000 wants more" in reason for reason in report["failed"].values())
    rows = pq.read_table(world.folder / "sweeps/some/cells.parquet").to_pylist()
    assert {row["state"] for row in rows} == {"done", "failed"}
    assert all("size 10000 wants more" in row["reason"] for row in rows if row["state"] == "failed")
    log = world.run("sweep", "log", "--sweep", "sweeps/some", "--cell", next(iter(report["failed"])), "--json")
    assert "Traceback" in log["log"]
    again = world.run(*given, "--ray", "nowhere:1", code=4)
    assert again["made"] == 0, "nothing is left to do but what failed, and no Ray is asked for"
    shown = world.run("sweep", "show", "--sweep", "sweeps/some", "--by", "model", "--against", "core", "--json")
    assert [row["model"] for row in shown["rows"]] == ["core", "small"] * 2
    retried = world.run_on_ray(*given, "--retry-failed", code=4)
    assert (retried["made"], len(retried["failed"])) == (0, 4)


@pytest.mark.slow
def test_a_sweep_that_is_killed_ends_with_the_same_bytes(world: World) -> None:
    name = sweep_file(world, "all.yaml")
    one = world.run("sweep", "run", name, "--out", "sweeps/one", "--workers", "1", "--json")
    assert (one["cells"], one["made"], one["models"]) == (24, 24, 2)
    cut = world.start("sweep", "run", name, "--out", "sweeps/cut", "--workers", "1")
    done = world.folder / CELLS.format("cut")
    wait_until(lambda: done.is_dir() and len(list(done.glob("*.json"))) >= 3, cut)
    below = [p for p in descendants(cut.pid) if "Agent" not in command_line(p)]
    cut.kill()
    cut.communicate(timeout=60)
    assert gone(below, seconds=30) == []
    before = len(list(done.glob("*.json")))
    assert 3 <= before < 24
    again = world.start("sweep", "run", name, "--out", "sweeps/cut", "--workers", "2", "--json")
    wait_until(lambda: len(workers_of(again.pid)) == 2 and len(list(done.glob("*.json"))) > before, again)
    os.kill(workers_of(again.pid)[0], signal.SIGKILL)
    answer, said = again.communicate(timeout=300)
    assert again.returncode == 0, said
    assert json.loads(answer)["made"] == 24 - before
    assert json.loads(answer)["models"] == 0, "a model is trained once"
    assert files(world.folder / "sweeps/cut") == files(world.folder / "sweeps/one")
    other = world.run("sweep", "run", sweep_file(world, "more.yaml", seeds=[1, 2]), "--out", "sweeps/more",
                      "--reuse", "sweeps/one", "--workers", "2", "--json")  # fmt: skip
    assert (other["reused"], other["made"], other["models"]) == (12, 12, 0)
    found = concord.read_sweep(world.folder / "sweeps/more")
    assert len(found.cells) == 24
    assert set(found.to_pandas()["engine"]) == {"short", "gibbs", "certify"}
