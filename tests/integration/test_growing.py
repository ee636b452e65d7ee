"""A cluster without a node for workers: Ray's own autoscaler adds nodes as a run asks for them, and some are lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from concord.schemas.document import Document
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.plan import plan
from concord.workers.labelling.output import PREDICTIONS
from concord.workers.remote.label import LABEL
from tests.integration.conftest import PYTHON
from tests.integration.processes import command_line, descendants, wait_until
from tests.integration.ray_heads import Head, ray_head
from tests.integration.slow_model import slow_job

pytestmark = pytest.mark.slow

SHARDS = 60

DRIVER = """
import json, sys
from pathlib import Path
from concord.flows.cluster.cluster import cluster
from concord.workers.corpus.plan import plan
from concord.workers.remote.label import LABEL
from tests.integration.slow_model import slow_job
with cluster(sys.argv[3], workers=None) as running:
    done = list(running.run(LABEL, plan(sys.argv[1]), slow_job(Path(sys.argv[2]), seconds=1.0)))
print(json.dumps([shard.error for shard in done]))
"""


@pytest.fixture
def env() -> dict[str, str]:
    """Nodes import the model of the tests."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return own | {"PYTHONPATH": str(Path(__file__).parents[2])}


@pytest.fixture
def head(env: dict[str, str]) -> Iterator[Head]:
    """A head without CPUs, and up to two nodes of two."""
    with ray_head(env, cpus=0, others=(2, 2)) as made:
        yield made


def nodes(head: Head) -> list[int]:
    """Processes of the nodes that were added."""
    below = set(descendants(head.pids[0])) - set(head.pids)
    return sorted(pid for pid in below if command_line(pid).split(" ")[0].endswith("/raylet"))


def predictions(store: Path) -> dict[str, bytes]:
    """What was labelled, by file."""
    return {path.name: path.read_bytes() for path in (store / PREDICTIONS).iterdir()}


def test_nodes_come_and_go_and_the_bytes_are_those_of_one_process(
    env: dict[str, str], head: Head, tmp_path: Path
) -> None:
    corpus, store, alone = tmp_path / "corpus", tmp_path / "store", tmp_path / "alone"
    for number in range(SHARDS):
        row = Document.build(f"d{number}", [["Ada", "works", "in", f"Basel-{number}"]])
        write_corpus([row], corpus / f"{number:03}", source="test")
    command = [PYTHON, "-c", DRIVER, str(corpus), str(store), head.address]
    process = subprocess.Popen(
        command, env=env | head.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    (store / PREDICTIONS).mkdir(parents=True)
    wait_until(lambda: len(predictions(store)) >= 4, process)
    wait_until(lambda: len(nodes(head)) == 2, process)
    told, silent = nodes(head)
    os.kill(told, signal.SIGTERM)
    before = len(predictions(store))
    wait_until(lambda: len(predictions(store)) >= before + 4, process)
    for pid in [silent, *descendants(silent)]:
        os.kill(pid, signal.SIGKILL)
    answer, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert json.loads(answer) == [None] * SHARDS
    assert said.count("was lost") == 2, said
    assert "a worker died" not in said
    for shard in plan(corpus):
        LABEL.run(shard, slow_job(alone, seconds=0.0))
    assert predictions(store) == predictions(alone)
