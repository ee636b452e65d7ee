"""Counting on real Ray, by workers that are killed and with a document that kills them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from concord.schemas.document import Document
from concord.workers.corpus.ingestion import write_corpus
from tests.integration.conftest import PYTHON

pytestmark = pytest.mark.slow

DRIVER = """
import json, os, signal, sys
from concord.flows.cluster.cluster import cluster
from tests.integration.lethal import LethalWords
from tests.integration.processes import workers_of
from concord.workers.corpus.plan import plan
from concord.workers.evaluation.corpus_counts import CorpusCounts
from concord.workers.remote.count import COUNT, CountParts
shards, found, killed = plan(sys.argv[1], shard_bytes=1), {}, []
with cluster(None, workers=2) as running:
    for answer in running.run(COUNT, shards, CountParts(vocabulary=LethalWords())):
        assert answer.error is None, answer.error
        found[answer.shard.id] = answer.result
        if not killed:
            killed = workers_of(os.getpid())[:1]
            os.kill(killed[0], signal.SIGKILL)
counts = CorpusCounts.merge(found[shard.id] for shard in shards)
print(json.dumps([counts.documents, counts.rejected, counts.tokens, counts.unknown, counts.labels.as_dict()]))
"""


def test_a_worker_that_is_killed_and_a_document_that_kills_change_no_other_count(tmp_path: Path) -> None:
    words = [["lethal" if i == 5 else f"w{i}", "works", "in", "Basel"] for i in range(9)]
    rows = [Document.build(f"d{i}", [row], labels=[["B-PER", "O", "O", "B-LOC"]]) for i, row in enumerate(words)]
    write_corpus(rows, tmp_path, source="test")
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    env["PYTHONPATH"] = str(Path(__file__).parents[2])  # workers import the words of the tests
    command = [PYTHON, "-c", DRIVER, str(tmp_path)]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=600)
    assert ran.returncode == 0, ran.stderr
    labels = {"B-LOC": {"tokens": 8}, "B-PER": {"tokens": 8}, "O": {"tokens": 16}}
    assert json.loads(ran.stdout) == [8, 1, 32, 32, labels]
    assert ran.stderr.count("it is rejected") == 1
