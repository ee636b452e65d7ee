"""Faults at every step of a run, replayable by seed: each step crossed with each fault, on a disk and an object store.

    python benchmarks/bench_failpoints.py                          # ten moments of each; a quarter of an hour
    python benchmarks/bench_failpoints.py --sample 12 --seed 7     # twelve cells drawn by a seed, nothing kept
    python benchmarks/bench_failpoints.py --cell objects commit "answer lost" 3

After each fault readers have to see the run before or the new one; the same command again has to write the bytes of a
run that nothing disturbed, with every row written or rejected, and nothing left over. Fails where a promise is broken.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections import Counter
from contextlib import redirect_stderr
from pathlib import Path

from common import ROOT, save

sys.path.insert(0, str(ROOT))  # what is done to a run is part of the tests, which are not installed

from concord.flows.screen.progress import meter
from tests.support.failpoints import Bench, Cell, cells, shown, tried
from tests.support.planned_s3 import planned_s3
from tests.support.s3 import KEYS

STORAGES = ("folder", "objects")


def main() -> None:
    """Tries the cells, and keeps how many held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="moments of each fault at each step")
    parser.add_argument("--sample", type=int, help="so many cells alone; keep no figures")
    parser.add_argument("--seed", type=int, default=0, help="draws that sample")
    parser.add_argument("--cell", nargs=4, metavar=("STORAGE", "STEP", "FAULT", "SEED"), help="one cell alone")
    chosen = parser.parse_args()
    os.environ.update(KEYS)
    with tempfile.TemporaryDirectory(prefix="failpoints-") as folder, planned_s3(Path(folder) / "plan") as (uri, tell):
        bench = Bench(Path(folder), uri, tell)
        with open(os.devnull, "w") as nothing, redirect_stderr(nothing):  # noqa: PTH123 — the system's
            bench.prepare()
        counts = {name: {after: bench.counts(name, after=after) for after in (False, True)} for name in STORAGES}
        wanted = {name: bench.wanted(name) for name in STORAGES}
        every = [
            cell for name in STORAGES for cell in cells(name, counts[name][False] | counts[name][True], chosen.seeds)
        ]
        if chosen.cell:
            storage, step, fault, seed = chosen.cell
            every = [Cell(storage, step, fault, int(seed))]
        if chosen.sample:
            every = random.Random(chosen.seed).sample(every, chosen.sample)
        held, failed = Counter[tuple[str, str, str]](), 0
        with meter("trying", len(every)) as bar:
            for cell in every:
                broken = tried(bench, cell, counts[cell.storage], wanted[cell.storage])
                held[cell.storage, cell.step, cell.fault] += not broken
                failed += bool(broken)
                for promise in broken:
                    print(f"{shown(cell)}: {promise}")
                bar.advance(1, note=f"cells, {failed} broken")
    print(f"{len(every) - failed} of {len(every)} held")
    if not chosen.sample and not chosen.cell:
        tries = Counter((cell.storage, cell.step, cell.fault) for cell in every)
        rows = [
            {"storage": storage, "step": step, "fault": fault, "tried": number, "held": held[storage, step, fault]}
            for (storage, step, fault), number in tries.items()
        ]
        save("failpoints", {"seeds": chosen.seeds, "cells": len(every), "held": len(every) - failed, "rows": rows})
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
