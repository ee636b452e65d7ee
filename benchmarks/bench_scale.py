"""What a driver does for a run of many shards, by simulation: nothing is read or labelled.

Shards, their markers and small files of predictions are made up; every hundredth shard has a reject. Then the driver
looks for what is done as after a kill, publishes, publishes again with one other shard, has a night with nothing new,
and reads what it has published. Each size is a process of its own. A real file of predictions is larger, and looking
for what is done after a kill hashes it: that is left out here.

    python benchmarks/bench_scale.py --sizes 1000 10000 100000 1000000

A million shards take 26 minutes, 5 GiB of memory and 9 GB of disk.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from common import MADE, save

from concord.flows.runfolder.folder_output import FolderOutput
from concord.flows.runfolder.layout import MANIFEST, STORE
from concord.flows.runfolder.markers import KEPT_MARKERS
from concord.flows.runfolder.published import published
from concord.flows.runfolder.runfolder import Purpose, claim, find_done, publish
from concord.schemas.run import ConstraintFigures, FileDigest, RowReject, RunKey, RunSettings, ShardMarker, ShardReport
from concord.workers.corpus.parquet import ParquetLocation
from concord.workers.corpus.shards import Shard
from concord.workers.labelling.output import MARKERS, NAME_LENGTH, PREDICTIONS, TIMES, shard_key
from concord.workers.storage.sealed import seal

T = TypeVar("T")

KEY = RunKey(settings=RunSettings(), model="model", constraints="constraints", code="code")
ROWS = 12
"""Rows of a shard, as many as the novels have."""
FILE_SHARDS = 40
"""Shards of a file of the corpus."""
REJECTED = 100
"""One in so many shards has a reject."""
REPORT = ShardReport(
    documents=ROWS,
    tokens=50_000,
    certified=ROWS,
    statuses={"optimal": ROWS},
    constraints={name: ConstraintFigures(degree_before=3.5, degree=1.25) for name in ("exact", "parts", "outside")},
)


def main() -> None:
    """Measures each size in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000], help="shards")
    parser.add_argument("--size", type=int, help="this size alone, in this process; prints its figures as JSON")
    chosen = parser.parse_args()
    if chosen.size:
        print(json.dumps(measured(chosen.size)))
        return
    rows = []
    for size in chosen.sizes:
        typed = [sys.executable, __file__, "--size", str(size)]
        rows.append(json.loads(subprocess.run(typed, stdout=subprocess.PIPE, check=True, text=True).stdout))
        print(rows[-1], file=sys.stderr)
    save("scale", {"sizes": rows})


def measured(size: int) -> dict[str, Any]:
    """Seconds of each step with so many shards, the process's peak memory behind each, and bytes on the disk."""
    folder = MADE / "out" / f"scale-{size}"
    shutil.rmtree(folder, ignore_errors=True)
    out, shards, figures = FolderOutput(folder), [_shard(number) for number in range(size)], dict[str, Any](shards=size)

    def step(name: str, work: Callable[[], T]) -> T:
        started = time.perf_counter()
        result = work()
        figures[f"{name}_seconds"] = time.perf_counter() - started
        figures[f"{name}_peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return result

    with out.exclusive():
        claim(out, Purpose.of("corpus"))
        _make(folder / STORE, shards)
        figures["shards_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        done = step("resume", lambda: find_done(out, shards, KEY))
        step("publish", lambda: publish(out, KEY, shards, done))
        shards[size // 2] = shards[size // 2]._replace(id="changed")
        _make(folder / STORE, shards[size // 2 : size // 2 + 1])
        done = find_done(out, shards, KEY)
        step("again", lambda: publish(out, KEY, shards, done))
        step("nothing_new", lambda: publish(out, KEY, shards, find_done(out, shards, KEY)))
    seen = step("read", lambda: published(str(folder)))
    if len(seen.manifest.shards) != size:
        raise SystemExit(f"{len(seen.manifest.shards)} of {size} shards are published")
    figures["manifest_bytes"] = (folder / MANIFEST).stat().st_size
    figures["markers_bytes"] = (folder / KEPT_MARKERS).stat().st_size
    figures["disk_bytes"] = int(subprocess.check_output(["du", "-s", "-k", folder]).split()[0]) * 1024
    shutil.rmtree(folder)
    return figures


def _shard(number: int) -> Shard:
    file = ParquetLocation("corpus", *[f"part-{number // FILE_SHARDS:07d}.parquet"] * 2)
    digest = hashlib.sha256(str(number).encode()).hexdigest()[:32]
    return Shard(digest, file, number % FILE_SHARDS * ROWS, ROWS, 1 << 18, digest)


def _make(store: Path, shards: Sequence[Shard]) -> None:
    """Writes what workers leave of each shard, without waiting for the disk."""
    for folder in (MARKERS, PREDICTIONS, TIMES):
        (store / folder).mkdir(parents=True, exist_ok=True)
    for number, shard in enumerate(shards):
        key = shard_key(shard, KEY)
        name, data = f"{key[:NAME_LENGTH]}.parquet", bytes.fromhex(key) * 16
        for folder in (PREDICTIONS, TIMES):
            (store / folder / name).write_bytes(data)
        entry = FileDigest(path=f"{PREDICTIONS}/{name}", bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
        rejects = () if number % REJECTED else (RowReject(row=1, doc_id="id", reason="doc_id is empty"),)
        marker = ShardMarker(key=key, files=(entry,), rejects=rejects, report=REPORT)
        (store / MARKERS / f"{key[:NAME_LENGTH]}.json").write_bytes(seal(marker.model_dump(mode="json")))


if __name__ == "__main__":
    main()
