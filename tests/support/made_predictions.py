"""The folder of a run whose labels are given."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from concord.flows.runfolder.layout import MANIFEST
from concord.flows.runfolder.lists import ListedShard
from concord.schemas.columns import PREDICTIONS_LAYOUT
from concord.schemas.run import RunKey, RunManifest, RunSettings, ShardPlace, ShardReport
from concord.workers.labelling.output import PREDICTIONS
from concord.workers.storage.sealed import seal
from tests.support.manifests import write_lists


def predictions(path: Path, rows: dict[str, list[str]], *, viterbi: dict[str, list[str]]) -> None:
    """Writes a whole run with these labels by document, as `concord evaluate` takes it."""
    table = pa.table(
        {
            "doc_id": list(rows),
            "tokens": list(rows.values()),
            "sentence_starts": pa.array([[0] for _ in rows], PREDICTIONS_LAYOUT.required.field("sentence_starts").type),
            "labels": list(rows.values()),
            "entities": pa.array([[] for _ in rows], PREDICTIONS_LAYOUT.required.field("entities").type),
            "engine": ["gibbs"] * len(rows),
            **{name: [0.5] * len(rows) for name in ("local", "penalty", "objective", "bound", "gap")},
            "status": ["optimal-by-solver" if i == 0 else "feasible" for i in range(len(rows))],
            "certified": [i == 0 for i in range(len(rows))],
            "constraints": pa.array([[] for _ in rows], PREDICTIONS_LAYOUT.required.field("constraints").type),
            "model_digest": ["m"] * len(rows),
            "constraint_digest": ["c"] * len(rows),
            "viterbi_labels": [viterbi[name] for name in rows],
        }
    )
    (path / PREDICTIONS).mkdir(parents=True)
    write_run(path, table)


def write_run(path: Path, table: pa.Table) -> None:
    """Writes the predictions of a whole run, and its manifest."""
    name = f"{PREDICTIONS}/p.parquet"
    pq.write_table(table, path / name)
    digest = hashlib.sha256((path / name).read_bytes()).hexdigest()
    key = RunKey(settings=RunSettings(), model="m", constraints="c", code="")
    lists = write_lists(path, [ListedShard(ShardPlace("", "p.parquet", 0, len(table)), {name: digest})])
    manifest = RunManifest(dataset="", run=key, totals=ShardReport(), shards=1, lists=lists)
    (path / MANIFEST).write_bytes(seal(manifest.model_dump(mode="json")))
