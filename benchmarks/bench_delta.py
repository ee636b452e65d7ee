"""A Delta table of many nights: bytes of its log, and seconds until a reader has its last version.

    python benchmarks/bench_delta.py --nights 1000 --shards 200

Each night one file in ten is another one. Nothing is labelled: files are made-up entries. Where the package
``deltalake`` is installed its reader is timed, too.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from common import save

from concord.flows.runfolder.delta_table import TABLE_FOLDER, table_state, write_checkpoint
from concord.schemas.columns import PREDICTIONS_LAYOUT
from concord.workers.delta.log import (
    CHECKPOINT_EVERY,
    LOG,
    Commit,
    DataFile,
    TableState,
    after,
    commit_lines,
    commit_name,
)
from concord.workers.storage.storage import FolderStorage


def written(out: FolderStorage, nights: int, shards: int) -> list[float]:
    """Writes the log; seconds of each commit."""
    rng, state, names = random.Random(0), TableState(), [f"{shard:08d}-0" for shard in range(shards)]
    schema: pa.Schema = PREDICTIONS_LAYOUT.required
    seconds = []
    for night in range(nights):
        for shard in rng.sample(range(shards), max(1, shards // 10)):
            names[shard] = f"{shard:08d}-{night}"
        files = [DataFile(f"{name}.parquet", 100_000, '{"numRecords":64}') for name in names]
        started = time.perf_counter()
        lines = commit_lines(state, Commit(files, schema, {"run": f"{night}"}))
        assert lines is not None
        out.write(f"{TABLE_FOLDER}/{commit_name(night)}", lines)
        state = after(state, lines, source="")
        if night and night % CHECKPOINT_EVERY == 0:
            write_checkpoint(out, state)
        seconds.append(time.perf_counter() - started)
    return seconds


def main() -> None:
    """Writes a log, reads it, and keeps the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nights", type=int, default=1000)
    parser.add_argument("--shards", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        out = FolderStorage(Path(name))
        commits = written(out, options.nights, options.shards)
        log = [path.stat().st_size for path in (Path(name) / TABLE_FOLDER / LOG).iterdir()]
        started = time.perf_counter()
        state = table_state(out)
        figures: dict[str, Any] = {"nights": options.nights, "shards": options.shards, "files": len(state.files)}
        figures |= {"seconds_to_open": time.perf_counter() - started, "log_bytes": sum(log), "log_files": len(log)}
        figures |= {"seconds_of_the_slowest_commit": max(commits)}
        if importlib.util.find_spec("deltalake") is not None:
            import deltalake

            started = time.perf_counter()
            table = deltalake.DeltaTable(Path(name) / TABLE_FOLDER)
            figures |= {"deltalake_seconds_to_open": time.perf_counter() - started, "version": table.version()}
    save("delta", figures)


if __name__ == "__main__":
    main()
