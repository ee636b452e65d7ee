"""One fault at one moment, and the promises that are checked after it."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from common import ROOT

sys.path.insert(0, str(ROOT))  # what the tests do to a run is part of them, which are not installed

from concord.workers.storage.files import TEMPORARY
from tests.integration.conftest import World
from tests.integration.processes import command_line, gone

SHARDS = 12
"""Of the test corpus, as `World.reprocess_command` cuts it."""

LATE, LATE_SECONDS = ("Agent", "agent", "/bin/sh", "sleep"), 75.0
"""Ray's agents, and the shell that ends them, may be there for so long after a kill."""


@dataclass
class Trial:
    """One fault at one moment. ``out`` is a folder's name in the world that nobody else uses."""

    world: World
    rng: random.Random
    out: str
    broken: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    code: int | None = None
    others: frozenset[int] = frozenset()
    late: list[int] = field(default_factory=list)

    def check(self, holds: object, promise: str) -> None:
        """Notes a promise that is not kept."""
        if not holds:
            self.broken.append(promise)

    def start(self, command: Sequence[str]) -> subprocess.Popen[str]:
        """The command, which has to answer for every new process of this world."""
        self.others = frozenset(processes(self.world))
        return self.world.start(*command)

    def ended(self, code: int | None, said: str, *promised: int) -> None:
        """Checks how the command that met the fault has ended, and what runs after it."""
        self.code = code
        self.check(code in promised, f"exit code {code}: {said[-600:]}")
        whole = (self.world.folder / self.out / "manifest.json").exists()
        self.check(code != 0 or whole, "done, it says, but the output is not whole")
        self.check("Traceback" not in said, f"a traceback: {said[-3000:]}")
        if code and code > 0:
            self.check(said.count("concord: ") == 1, f"not one line: {said[-600:]}")
        found = [pid for pid in processes(self.world) if pid not in self.others]
        self.late += [pid for pid in found if any(name in command_line(pid) for name in LATE)]
        self.check_gone([pid for pid in found if pid not in self.late], seconds=30)

    def check_gone(self, pids: list[int], *, seconds: float) -> None:
        """Checks that the processes end within ``seconds``."""
        left = gone(pids, seconds=seconds)
        self.check(not left, f"still there: {[command_line(pid)[:80] for pid in left]}")

    def again(self, command: Sequence[str]) -> Any:
        """The answer of the same command, undisturbed; then nothing is left of the first one."""
        answer = self.world.run(*command)
        self.check_gone(self.late, seconds=LATE_SECONDS)
        half = [path.name for path in self.world.folder.glob(f"{self.out}*/**/{TEMPORARY}*")]
        half += [path.name for path in self.world.folder.glob(f".{self.out}*") if not path.name.endswith(".lock")]
        self.check(not half, f"half-written: {half}")
        return answer

    def check_labelled(self, command: Sequence[str], *, wanted: str) -> None:
        """Gives ``command`` again and checks what it wrote against the run ``wanted``."""
        answer = self.again(command)
        read, written = rows(self.world, "test"), rows(self.world, f"{self.out}/predictions")
        rejected = rows(self.world, f"{self.out}/_rejects")
        self.check(read == written + rejected, f"{read} read, {written} written, {rejected} rejected")
        self.check((answer["documents"], answer["rejected"]) == (written, rejected), f"counted otherwise: {answer}")
        self.check(answer["shards_done"] + answer["shards_skipped"] == SHARDS, f"shards lost: {answer}")
        self.check_same(self.out, wanted)

    def check_same(self, out: str, wanted: str) -> None:
        """Checks that two folders have the same files, of the same bytes."""
        found, given = (set(self.world.content(name).items()) for name in (out, wanted))
        self.check(found == given, f"other bytes: {sorted({name for name, _ in found ^ given})}")


def processes(world: World) -> list[int]:
    """All that run in the world's environment, whoever is their parent by now."""
    mark, found = f"CONCORD_HOME={world.env['CONCORD_HOME']}\0".encode(), []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and mark in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue  # ended meanwhile
    return found


def rows(world: World, folder: str) -> int:
    """Rows of the Parquet files in a folder."""
    return sum(pq.read_metadata(path).num_rows for path in (world.folder / folder).glob("*.parquet"))
