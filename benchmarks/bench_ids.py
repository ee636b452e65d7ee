"""Planning of a corpus of very many documents, by simulation: no file of it is there, and none is read.

Files of 100,000 documents, in shards of a thousand, come in as workers read them; then the survey is kept, and the next
night takes it from there. Hashes of ids are random, none of them twice. *Memory* is what the process cannot give back
to the system, looked at every 20 ms, so without the map of the temporary file. Each size is a process of its own.

    python benchmarks/bench_ids.py --sizes 1000000 10000000 100000000
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from common import MADE, save

from concord.flows.labelling.planning import KEPT_SURVEY, Listing, plan_corpus
from concord.workers.corpus.parquet import ListedFile, ParquetLocation
from concord.workers.corpus.run_table import RunTable
from concord.workers.corpus.surveyed import SurveyedFile
from concord.workers.remote.survey import SurveyParts
from concord.workers.storage.storage import FolderStorage

T = TypeVar("T")

FILE_ROWS, SHARD_ROWS = 100_000, 1_000
PARTS = SurveyParts()


def main() -> None:
    """Measures each size in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000_000, 10_000_000], help="documents")
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
    save("ids", {"sizes": rows})


def measured(documents: int) -> dict[str, Any]:
    """Seconds and memory of a first night and of the next one, and bytes of the survey."""
    folder = MADE / "ids"
    shutil.rmtree(folder, ignore_errors=True)
    out = FolderStorage(folder)
    files = [
        ListedFile(ParquetLocation("corpus", *[f"part-{number:07d}.parquet"] * 2), 1, 1, 0)
        for number in range(documents // FILE_ROWS)
    ]
    listing = Listing("corpus", files, time.time_ns())
    figures: dict[str, Any] = {"documents": documents, "shards": documents // SHARD_ROWS, "before_mib": _memory()}
    planned, figures["first_seconds"], figures["first_mib"] = _watched(lambda: plan_corpus(listing, PARTS, out, _made))
    _, figures["keep_seconds"], figures["keep_mib"] = _watched(partial(planned.found.keep, out))
    wanted = planned.survey.shards
    del planned
    again, figures["known_seconds"], figures["known_mib"] = _watched(lambda: plan_corpus(listing, PARTS, out, _none))
    if not np.array_equal(again.survey.shards.ids, wanted.ids) or len(wanted) != figures["shards"]:
        raise SystemExit("the next night finds other shards")
    figures["survey_bytes"] = sum(path.stat().st_size for path in (folder / KEPT_SURVEY).iterdir())
    shutil.rmtree(folder)
    return figures


def _made(files: Sequence[ListedFile], _parts: SurveyParts) -> Iterator[SurveyedFile]:
    rng = np.random.default_rng(0)
    rows = np.full(FILE_ROWS // SHARD_ROWS, SHARD_ROWS)
    for file in files:
        digests = np.frombuffer(rng.bytes(16 * len(rows)), np.uint8).reshape(-1, 16)
        ids = rng.integers(-(1 << 63), (1 << 63) - 1, FILE_ROWS, np.int64)
        runs = RunTable(file.location, np.cumsum(rows) - rows, rows, np.full(len(rows), 1 << 20), digests, ids)
        yield SurveyedFile(file, ("tokens",), runs)


def _none(files: Sequence[ListedFile], _parts: SurveyParts) -> Iterator[SurveyedFile]:
    raise SystemExit(f"{len(files)} files are read again")


def _watched(work: Callable[[], T]) -> tuple[T, float, float]:
    """A result, its seconds, and the most memory meanwhile, in MiB."""
    peak, ended = [_memory()], threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            peak[0] = max(peak[0], _memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    started = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - started
    ended.set()
    watcher.join()
    return result, seconds, peak[0]


def _memory() -> float:
    """MiB of this process that are no file's."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


if __name__ == "__main__":
    main()
