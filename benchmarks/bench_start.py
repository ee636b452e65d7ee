"""What it costs to start: CPU seconds (user and system, of the process and all that it waited for) of small commands,
and by the clock how long a node that has compiled nothing takes to its first shard.

python benchmarks/bench_start.py            # the least of 3 runs each
python benchmarks/bench_start.py --runs 5

A made-up corpus of 20 documents is labelled by one worker; the kernels of this tree are compiled by the runs that are
not counted. Take figures on a machine that has nothing else to do: CPU seconds grow by half on a busy one.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONCORD = (sys.executable, "-c", "from concord.flows.cli.app import app; app()")
TEXT = "Police met Ada Lovelace at her home in London. Lovelace told reporters she would write."

REPROCESS = ("reprocess", "--corpus", "corpus", "--model", "model", "--workers", "1", "--out", "out")

MADE: tuple[tuple[str, ...], ...] = (
    (*CONCORD, "synthesize", "--documents", "20", "--out", "corpus"),
    (*CONCORD, "train", "--corpus", "corpus", "--features", "core", "--no-consistency", "--out", "model"),
    (*CONCORD, *REPROCESS),
    (*CONCORD, "label", "--model", "model", TEXT),
    (*CONCORD, "label", "--model", "model", "--n-best", "5", TEXT),
    (*CONCORD, "label", "--model", "model", "--confidence", "margin", TEXT),
)
"""What is there before anything is counted."""

COUNTED: dict[str, tuple[str, ...]] = {
    "import concord.flows.reprocess": (sys.executable, "-c", "import concord.flows.reprocess"),
    "help": (*CONCORD, "--help"),
    "train, a wrong path": (*CONCORD, "train", "--corpus", "nope", "--out", "other"),
    "reprocess, a wrong path": (*CONCORD, "reprocess", "--corpus", "nope", "--model", "model", "--out", "other"),
    "reprocess, nothing to do": MADE[2],
    "label": MADE[3],
    "label --n-best 5": MADE[4],
    "label --confidence margin": MADE[5],
}

COLD = ("gibbs", "certify")
"""Engines that label on a node that has compiled nothing; run once each."""

OTHERS = ("RAY_", "PREFECT_", "MLFLOW_", "PYTHONDONTWRITEBYTECODE")
"""Variables whose names start so are left out: without compiled modules each start would parse all libraries again."""


def first_shard(engine: str, folder: Path) -> float:
    """Seconds by the clock from the start of a run to the first file of a shard, on a node that has compiled nothing.

    Raises `subprocess.CalledProcessError` if the run fails, before or after.
    """
    command = (*CONCORD, *REPROCESS[:-1], engine, "--engine", engine)
    env = _seen() | {"NUMBA_CACHE_DIR": tempfile.mkdtemp(dir=folder)}
    started = time.monotonic()
    with subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        while run.poll() is None and not any((folder / engine / ".shards").rglob("*.parquet")):
            time.sleep(0.05)
        seconds = time.monotonic() - started
        if run.wait(timeout=1800):
            raise subprocess.CalledProcessError(run.returncode, command)
    return seconds


def _seen() -> dict[str, str]:
    """What a command sees of the environment."""
    env = {name: text for name, text in os.environ.items() if not name.startswith(OTHERS)}
    return env | {"PYTHONPATH": str(ROOT)}


def cpu_seconds(command: tuple[str, ...], folder: Path) -> tuple[float, float]:
    """CPU seconds of a command and what it waited for, and seconds by the clock."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, cwd=folder, env=_seen(), capture_output=True, check="nope" not in command, timeout=1800)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.monotonic() - started


def main() -> None:
    """Prints a line a command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3, help="runs of each command, of which the least counts")
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for command in MADE:
            cpu_seconds(command, folder)
        for title, command in COUNTED.items():
            show(title, *min(cpu_seconds(command, folder) for _ in range(runs)))
        for engine in COLD:
            title = f"first shard, cold kernels, {engine}"
            print(f"{title:36} {first_shard(engine, folder):22.2f} s", flush=True)


def show(title: str, cpu: float, wall: float) -> None:
    """One line."""
    print(f"{title:36} {cpu:6.2f} CPU s  {wall:6.2f} s", flush=True)


if __name__ == "__main__":
    main()
