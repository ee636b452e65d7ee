"""Workers and the memory of a real Ray: those that fit do the work, and what fits nowhere is said at once."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from concord.schemas.document import Document
from concord.workers.corpus.ingestion import write_corpus
from tests.integration.conftest import PYTHON

DRIVER = """
import json, sys
import concord.flows.cluster.cluster
from concord.flows.cluster.cluster import ClusterError, cluster
import ray
from concord.workers.corpus.plan import plan
from concord.workers.remote.count import COUNT, CountParts
with cluster(None, workers=2) as running:
    (has,) = {int(node["Resources"]["memory"]) for node in ray.nodes()}
    concord.flows.cluster.cluster.memory_of = lambda *_: has * 2 // 3
    done = [answer.result.tokens for answer in running.run(COUNT, plan(sys.argv[1], shard_bytes=1), CountParts())]
    concord.flows.cluster.cluster.memory_of = lambda *_: 2 * has
    try:
        list(running.run(COUNT, plan(sys.argv[1]), CountParts()))
    except ClusterError as error:
        refused = str(error)
print(json.dumps([done, refused]))
"""


def test_a_worker_without_room_is_not_waited_for(tmp_path: Path) -> None:
    rows = [Document.build(f"d{i}", [["Anna", "works"]]) for i in range(6)]
    write_corpus(rows, tmp_path, source="test")
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    command = [PYTHON, "-c", DRIVER, str(tmp_path)]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr
    done, error = json.loads(ran.stdout)
    assert sum(done) == 12
    assert "room for 1 of 2 workers" in ran.stderr
    assert error.startswith("a worker needs ")
