"""Clusters that change under a run, or are full: a node comes, one has other code, others fill the store."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.conftest import SHARDS, World, markers, new_world
from tests.integration.processes import wait_until
from tests.integration.two_nodes import TwoNodes, two_nodes
from tests.support.copied import copied

pytestmark = pytest.mark.slow


FULL = """
import sys, numpy, ray
ray.init(sys.argv[1], log_to_driver=False, logging_level="ERROR")
kept = [ray.put(numpy.full(20 * 2**20, number, numpy.uint8)) for number in range(20)]
print("full", flush=True)
sys.stdin.read()
assert [int(part[0]) for part in ray.get(kept)] == list(range(20))
"""
"""Keeps 400 MiB in the stores of a cluster, of which each has 150."""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A model and a corpus."""
    made = new_world(tmp_path_factory.mktemp("nodes"))
    made.run("train", "--corpus", "train", "--features", "finkel", "--out", "model", "--json")
    return made


@pytest.fixture
def nodes(alone: World) -> Iterator[TwoNodes]:
    with two_nodes(alone.env) as made:
        yield made


def begun(alone: World, nodes: TwoNodes, out: str, sweeps: int) -> subprocess.Popen[str]:
    """A run that asks for a worker more than there are CPUs, once it has done a shard; a node takes seconds to come."""
    places = ("--corpus", "test", "--model", "model", "--out", out, "--ray", nodes.address)
    sampling = ("--engine", "gibbs", "--set", f"sweeps={sweeps}", "--shard-kib", "3")
    there = replace(alone, env=alone.env | nodes.environment)
    process = there.start("reprocess", *places, "--workers", "3", "--json", *sampling)
    wait_until(lambda: markers(alone, out) >= 1, process, seconds=300)
    return process


def test_a_node_that_is_added_gets_a_worker(alone: World, nodes: TwoNodes) -> None:
    process = begun(alone, nodes, "added", 20_000)
    nodes.add_node()
    wait_until(lambda: nodes.actors() == (3, 3), process, seconds=120)
    answer, said = process.communicate(timeout=600)
    assert process.returncode == 0, said
    assert "room for 2 of 3 workers" in said
    assert '"documents": 48' in answer


def test_a_node_with_other_code_is_named_and_nothing_is_lost(alone: World, nodes: TwoNodes, tmp_path: Path) -> None:
    changed = copied(tmp_path) / "workers" / "labelling" / "shard.py"
    changed.write_text(changed.read_text() + "\nOTHER_CODE = 1\n")
    process = begun(alone, nodes, "other", 100_000)
    nodes.add_node(tmp_path)
    _, said = process.communicate(timeout=600)
    assert process.returncode == 5, said
    (line,) = (line for line in said.splitlines() if line.startswith("concord: "))
    assert f"from {tmp_path}" in line
    assert "install the same version on every node" in line
    assert "Traceback" not in said
    assert nodes.actors()[0] == 0
    done = markers(alone, "other")
    assert 1 <= done < SHARDS
    assert not (alone.folder / "other" / "manifest.json").exists()


def test_a_store_that_is_full_of_others_objects_changes_nothing(alone: World, nodes: TwoNodes) -> None:
    alone.reprocess("reference", "--workers", "1")
    there = replace(alone, env=alone.env | nodes.environment)
    filling = subprocess.Popen(
        [sys.executable, "-c", FULL, nodes.address],
        env=there.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert filling.stdout is not None
    assert filling.stdout.readline() == "full\n", filling.communicate()[1]
    there.run(*there.reprocess_command("full", "--workers", "2", "--ray", nodes.address))
    _, said = filling.communicate()
    assert filling.returncode == 0, said
    assert alone.content("full") == alone.content("reference")
