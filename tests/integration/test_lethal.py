"""Documents that end whoever labels them: real workers on real Ray, and real deaths."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from concord.flows.runfolder.folder_output import intact
from concord.schemas.document import Batch, Document
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import LETHAL as REASON
from concord.workers.corpus.shards import REPEATED
from concord.workers.labelling.labelled import label_batch
from concord.workers.labelling.output import PREDICTIONS, TIMES, finished, shard_key
from concord.workers.labelling.shard import label_shard
from concord.workers.storage.storage import FolderStorage
from tests.integration.conftest import PYTHON
from tests.integration.lethal import LETHAL, lethal_job
from tests.support.made_runs import HashModel

DRIVER = """
import json, sys
from pathlib import Path
from concord.flows.cluster.cluster import cluster
from concord.workers.corpus.plan import plan
from concord.workers.remote.label import LABEL
from tests.integration.lethal import lethal_job
with cluster(None, workers=2) as running:
    job = lethal_job(Path(sys.argv[2]))._replace(sample=None)
    done = list(running.run(LABEL, plan(sys.argv[1]), job))
print(json.dumps([shard.error for shard in done]))
"""

FILES = (
    ("Ada", f"{LETHAL}-0", "Basel", f"{LETHAL}-1", "Curie"),
    (f"{LETHAL}-2",),
    ("Darwin", "Ada", f"{LETHAL}-1"),
)
"""Document ids by file, each of which is a shard; the last one has two repeats."""


def document(name: str) -> Document:
    return Document.build(name, [[name, "works", "in", "Basel"], ["Basel", "likes", name]])


@dataclass(frozen=True)
class Labelled:
    """The corpus, the store of a run on two workers, its shards' errors, and what it said."""

    corpus: Path
    store: Path
    errors: Any
    said: str


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Labelled:
    base = tmp_path_factory.mktemp("lethal")
    corpus, store = base / "corpus", base / "store"
    for number, names in enumerate(FILES):
        write_corpus(map(document, names), corpus / str(number), source="test")
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    env["PYTHONPATH"] = str(Path(__file__).parents[2])  # workers import the model of the tests
    command = [PYTHON, "-c", DRIVER, str(corpus), str(store)]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=600)
    assert ran.returncode == 0, ran.stderr
    return Labelled(corpus, store, json.loads(ran.stdout), ran.stderr)


def test_documents_that_kill_twice_are_rejected_and_the_others_labelled(labelled: Labelled) -> None:
    assert labelled.errors == [None] * len(FILES)
    # What a run finds done, it skips: the same command again labels nothing.
    markers = [
        finished(
            shard_key(shard, lethal_job().key), FolderStorage(labelled.store), holds=partial(intact, labelled.store)
        )
        for shard in plan(labelled.corpus)
    ]
    for marker, names in zip(markers, FILES, strict=True):
        assert marker is not None
        assert marker.report.rejected == len(marker.rejects)
        assert marker.report.documents + marker.report.rejected == len(names)
    assert [[(r.row, r.doc_id, r.reason) for r in marker.rejects] for marker in markers if marker] == [
        [(1, f"{LETHAL}-0", REASON), (3, f"{LETHAL}-1", REASON)],
        [(0, f"{LETHAL}-2", REASON)],
        [(1, "Ada", REPEATED), (2, f"{LETHAL}-1", REPEATED)],
    ]
    assert labelled.said.count("it is rejected") == 3


def test_their_neighbours_have_the_labels_that_they_have_alone(labelled: Labelled) -> None:
    job = lethal_job()
    good = [document(name) for name in ("Ada", "Basel", "Curie", "Darwin")]
    alone = label_batch(Batch.of(good), model=HashModel(), constraints=job.constraints, settings=job.key.settings)
    names = HashModel.labels.names
    rows = pq.read_table(labelled.store / PREDICTIONS).to_pylist()
    assert sorted((row["doc_id"], row["labels"]) for row in rows) == [
        (one.doc_id, [names[label] for label in answer.labels]) for one, answer in zip(good, alone.decoded, strict=True)
    ]


def test_the_bytes_are_those_of_one_process_that_knows_the_lethal_rows(labelled: Labelled, tmp_path: Path) -> None:
    job = lethal_job(tmp_path)
    for shard, lethal in zip(plan(labelled.corpus), ((1, 3), (0,), ()), strict=True):
        known = shard._replace(lethal=lethal)
        label_shard(known, model=job.model, constraints=job.constraints, key=job.key, store=FolderStorage(tmp_path))
    assert contents(labelled.store) == contents(tmp_path)


def contents(store: Path) -> dict[str, bytes]:
    files = [path for path in store.rglob("*") if path.is_file() and TIMES not in path.parts]
    assert len(files) == 2 * len(FILES)
    return {path.relative_to(store).as_posix(): path.read_bytes() for path in files}
