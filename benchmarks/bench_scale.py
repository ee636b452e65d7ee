"""What a driver does for a run of many shards, by simulation: nothing is read or labelled.

Shards, their markers and small files of predictions are made up; every hundredth shard has a reject. Then the driver
looks for what is done as after a kill, publishes, has a night with nothing new, publishes again with one other shard,
looks for the answers of that run to begin a night under other constraints, and reads what it has published. Each size
is a process of its own. A real file of predictions is larger, and looking for what is done after a kill hashes it: that
is left out here.

    python benchmarks/bench_scale.py --sizes 1000 10000 100000 1000000

With ``--no-disk`` there are no files but those of the run itself (lists, manifest, markers): the files of shards are as
the store would say they are, so that more shards fit than a disk has inodes.

    python benchmarks/bench_scale.py --no-disk --sizes 100000 1000000 10000000
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from common import MADE, save

from concord.flows.runfolder.folder_output import FolderOutput
from concord.flows.runfolder.last_run import last_answers
from concord.flows.runfolder.layout import MANIFEST, SHARD_LISTS, STORE, Publication, RunOutput
from concord.flows.runfolder.markers import KEPT_MARKERS, Markers
from concord.flows.runfolder.published import published
from concord.flows.runfolder.run_keys import RunKeys
from concord.flows.runfolder.runfolder import Purpose, claim, find_done, publish
from concord.schemas.run import ConstraintFigures, FileDigest, RowReject, RunKey, RunSettings, ShardMarker, ShardReport
from concord.workers.constraints.constraint_set import NO_RULES
from concord.workers.corpus.parquet import ParquetLocation
from concord.workers.corpus.shard_table import ShardTable
from concord.workers.labelling.output import MARKERS, NAME_LENGTH, PREDICTIONS, TIMES, marker_bytes, marker_name
from concord.workers.storage.storage import FolderStorage

T = TypeVar("T")

KEY = RunKey(settings=RunSettings(settle=True), model="model", constraints="constraints", code="code")
OTHER = KEY.model_copy(update={"constraints": "others"})
ROWS = 12
"""Rows of a shard, as many as the novels have."""
FILE_SHARDS = 40
"""Shards of a file of the corpus."""
REJECTED = 100
"""One in so many shards has a reject."""
FILE_BYTES = 512
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
    parser.add_argument("--no-disk", action="store_true", help="without the files of shards")
    parser.add_argument("--size", type=int, help="this size alone, in this process; prints its figures as JSON")
    chosen = parser.parse_args()
    if chosen.size:
        print(json.dumps(measured(chosen.size, disk=not chosen.no_disk)))
        return
    rows = []
    for size in chosen.sizes:
        typed = [sys.executable, __file__, "--size", str(size), *(["--no-disk"] if chosen.no_disk else [])]
        rows.append(json.loads(subprocess.run(typed, stdout=subprocess.PIPE, check=True, text=True).stdout))
        print(rows[-1], file=sys.stderr)
    save("scale_no_disk" if chosen.no_disk else "scale", {"sizes": rows})


def measured(size: int, *, disk: bool) -> dict[str, Any]:
    """Seconds of each step with so many shards, the process's peak memory behind each, and bytes on the disk."""
    folder = MADE / "out" / f"scale-{size}"
    shutil.rmtree(folder, ignore_errors=True)
    figures = dict[str, Any](shards=size)

    def step(name: str, work: Callable[[], T]) -> T:
        started = time.perf_counter()
        result = work()
        figures[f"{name}_seconds"] = time.perf_counter() - started
        figures[f"{name}_peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{size} shards: {name}, {figures[f'{name}_seconds']:.1f} s", file=sys.stderr, flush=True)
        return result

    shards = made_shards(size)
    figures["shards_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    made = Made(shards)
    out: RunOutput = FolderOutput(folder) if disk else NoDisk(folder, made)
    with out.exclusive():
        claim(out, Purpose.of("corpus"))
        if disk:
            made.written(folder / STORE, range(size))
        figures["made_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        done = step("resume", lambda: find_done(out, shards, KEY))
        step("publish", partial(publish, out, done))
        del done  # a run has one
        made.waiting = False
        step("nothing_new", lambda: publish(out, find_done(out, shards, KEY)))
        shards.ids[size // 2] = np.frombuffer(b"another shard now", np.uint8)[:16]
        made.keys = RunKeys(shards, KEY)
        if disk:
            made.written(folder / STORE, range(size // 2, size // 2 + 1))
        else:
            made.waiting = size // 2
        done = find_done(out, shards, KEY)
        step("again", partial(publish, out, done))
        del done
        last = step("answers", lambda: last_answers(out.storage, Markers(shards, OTHER), NO_RULES))
        if len(last.files) != size:
            raise SystemExit(f"answers of {len(last.files)} shards are known")
        del last
    listed = step("read", lambda: sum(1 for _ in published(str(folder)).shards()))
    if listed != size:
        raise SystemExit(f"{listed} of {size} shards are published")
    figures["manifest_bytes"] = (folder / MANIFEST).stat().st_size + _bytes_below(folder / SHARD_LISTS)
    figures["markers_bytes"] = _bytes_below(folder / KEPT_MARKERS)
    figures["disk_bytes"] = int(subprocess.check_output(["du", "-s", "-k", folder]).split()[0]) * 1024
    shutil.rmtree(folder)
    return figures


def _bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def made_shards(size: int) -> ShardTable:
    """Shards of files of forty each."""
    files = [ParquetLocation("corpus", *[f"part-{n:07d}.parquet"] * 2) for n in range(-(-size // FILE_SHARDS))]
    number = np.arange(size)
    digests = b"".join(hashlib.sha256(str(n).encode()).digest()[:16] for n in range(size))
    ids = np.frombuffer(bytearray(digests), np.uint8).reshape(-1, 16)
    rows = np.full(size, ROWS)
    return ShardTable(
        files=tuple(files),
        file=number // FILE_SHARDS,
        first_row=number % FILE_SHARDS * ROWS,
        rows=rows,
        size=np.full(size, 1 << 18),
        ids=ids,
        digests=ids.copy(),
        repeats={},
        scores=None,
    )


@dataclass
class Made:
    """What workers leave of shards, made up; ``waiting``: which of their markers are files, all or one or none."""

    shards: ShardTable
    waiting: bool | int = True

    def __post_init__(self) -> None:
        """The keys of the shards."""
        self.keys = RunKeys(self.shards, KEY)

    def data(self, key: str) -> bytes:
        """A file of predictions, or of times."""
        return bytes.fromhex(key) * (FILE_BYTES // 32)

    def marker(self, place: int) -> bytes:
        """The marker of a shard."""
        key = self.keys[place]
        data = self.data(key)
        path = f"{PREDICTIONS}/{key[:NAME_LENGTH]}.parquet"
        entry = FileDigest(path=path, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
        rejects = () if place % REJECTED else (RowReject(row=1, doc_id="id", reason="doc_id is empty"),)
        return marker_bytes(ShardMarker(key=key, files=(entry,), rejects=rejects, report=REPORT))

    def written(self, store: Path, places: range) -> None:
        """Writes the files and markers of these shards, without waiting for the disk."""
        for folder in (MARKERS, PREDICTIONS, TIMES):
            (store / folder).mkdir(parents=True, exist_ok=True)
        for place in places:
            key = self.keys[place]
            for folder in (PREDICTIONS, TIMES):
                (store / folder / f"{key[:NAME_LENGTH]}.parquet").write_bytes(self.data(key))
            (store / MARKERS / marker_name(key)).write_bytes(self.marker(place))


class NoDiskStorage:
    """A folder, and a store in it whose markers are made when they are asked for."""

    def __init__(self, root: Path, made: Made) -> None:
        """The folder at ``root``."""
        self.folder, self.made = FolderStorage(root), made
        self.uri = self.folder.uri

    def below(self, folder: str) -> NoDiskStorage:
        """As `Storage` has it."""
        return NoDiskStorage(self.folder.root / folder, self.made)

    def names(self, folder: str) -> Iterator[str]:
        """As `Storage` has it."""
        if not folder.endswith(MARKERS):
            yield from self.folder.names(folder)
        elif self.made.waiting is not False:
            places = range(len(self.made.shards)) if self.made.waiting is True else [self.made.waiting]
            yield from (marker_name(self.made.keys[place]) for place in places)

    def read(self, name: str) -> bytes | None:
        """As `Storage` has it."""
        folder, _, last = name.rpartition("/")
        if folder != MARKERS:
            return self.folder.read(name)
        return self.made.marker(self.made.keys.places(last.removesuffix(".json"))[0])

    def opened(self, name: str) -> BinaryIO:
        """As `Storage` has it."""
        return self.folder.opened(name)

    def write(self, name: str, data: bytes) -> None:
        """As `Storage` has it."""
        self.folder.write(name, data)

    def remove(self, names: list[str]) -> None:
        """As `Storage` has it."""
        self.folder.remove([name for name in names if MARKERS not in name])


class NoDisk:
    """An output that has the files of shards without being asked, and does with a run what a folder does."""

    def __init__(self, root: Path, made: Made) -> None:
        """The folder at ``root``."""
        self.root, self.made = root, made
        self.storage: Any = NoDiskStorage(root, made)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """As `RunOutput` has it."""
        with FolderOutput(self.root).exclusive():
            yield

    def begun(self) -> bool:
        """As `RunOutput` has it."""
        return False

    def copy(self, path: str, other: str) -> None:
        """As `RunOutput` has it."""
        FolderOutput(self.root).copy(path, other)

    def create(self, path: str, data: bytes) -> None:
        """As `RunOutput` has it."""
        FolderOutput(self.root).create(path, data)

    def tidy(self) -> None:
        """As `RunOutput` has it."""

    def holds(self, entry: FileDigest) -> bool:
        """As `RunOutput` has it."""
        return entry.bytes == FILE_BYTES

    def version(self, path: str) -> str | None:
        """As `RunOutput` has it: of the length that a folder gives."""
        return f"{FILE_BYTES} 1764180000000000000 1764180000000000000 {int(path[-30:-20], 16) % 10**8}"

    def show(self, run: Publication) -> None:
        """Asks of each file what a folder asks, and keeps those that are no shard's."""
        seen = self.storage.folder.read(MANIFEST) == run.manifest
        for file in run.files():
            if not run.shows(file.entry.path) or (file.stored and not run.keeps(file.stored[-40:-8])):
                raise SystemExit(f"{file.entry.path} is not seen")
            if file.entry.path.startswith(SHARD_LISTS) and not seen:
                self.storage.write(file.entry.path, file.data)
        for name in self.storage.names(SHARD_LISTS):
            if not run.shows(f"{SHARD_LISTS}/{name}"):
                self.storage.remove([f"{SHARD_LISTS}/{name}"])
        self.storage.write(MANIFEST, run.manifest)


if __name__ == "__main__":
    main()
