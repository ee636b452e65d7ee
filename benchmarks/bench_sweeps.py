"""Sweeps of 100 and of 1,000 cells on one and on two workers; the first again, and after a change; the other killed.

Cells are Cora's development citations under ten constraint files, by five engines, with two or twenty seeds. Each
command is the command line's, in a process of its own, with the start of Ray in its seconds. Take the figures on a
machine with two free cores: seconds are those of the clock. All of it takes 35 minutes.

    python benchmarks/bench_sweeps.py
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from common import MADE, ROOT, concord, concord_command, save
from corpora import corpus
from problems import CITATION_CONSTRAINTS

from concord.schemas.sweep import CellState

FOLDER = MADE / "sweeps-at-work"
FILES = 10
ENGINES: dict[str, dict[str, Any]] = {
    "gibbs": {"options": {"sweeps": 200}},
    "annealed": {"options": {"sweeps": 200}},
    "evolution": {},
    "certify": {},
    "anytime": {},
}
FEW, MANY = 2, 20
"""Seeds of the sweep of 100 cells, and of that of 1,000."""
KILLED = 500
"""Cells of the second one that are done when it is killed."""


def main() -> None:
    """Runs both, and keeps their figures."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    save("sweeps", {"hundred": hundred(), "thousand": thousand()})


def hundred() -> dict[str, Any]:
    """A hundred cells: seconds on one worker and on two, of the same again, and of what one edited file changes."""
    file = _file(FEW)
    seconds: dict[str, float] = {}
    _run(_file(1, files=1), "warm", 2)  # compiles the kernels, once for all that follow
    figures = _on_one_and_two(file, "of")
    seconds["again"], again = _run(file, "of-2", 2)
    edited = FOLDER / "rules-3.yaml"
    rules = yaml.safe_load(edited.read_text())
    rules["constraints"][0]["weight"] += 0.5
    edited.write_text(yaml.safe_dump(rules, sort_keys=False))
    seconds["edited"], changed = _run(file, "of-2", 2)
    return figures | {
        "made_again": again["made"],
        "made_when_edited": changed["made"],
        **{f"seconds_{name}": value for name, value in seconds.items()},
    }


def _on_one_and_two(file: Path, out: str) -> dict[str, Any]:
    """Seconds of a sweep on one worker and on two, their quotient, and whether both have the same bytes."""
    one, _ = _run(file, f"{out}-1", 1)
    two, report = _run(file, f"{out}-2", 2)
    return {
        "cells": report["cells"],
        "equal_bytes": _cells(f"{out}-1") == _cells(f"{out}-2"),
        "speed_up": one / two,
        "cpu_seconds": report["cpu_seconds"],
        "seconds_workers_1": one,
        "seconds_workers_2": two,
    }


def thousand() -> dict[str, Any]:
    """A thousand cells: seconds to plan them, to list them after a kill, to do the rest, and to do all undisturbed."""
    file, out = _file(MANY), FOLDER / "thousand"
    planning = _seconds(("sweep", "plan", file, "--out", out))
    killed = time.perf_counter()
    process = subprocess.Popen(
        concord_command("sweep", "run", file, "--out", out, "--workers", "2"),
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while _done(out) < KILLED:
        if process.poll() is not None:
            raise SystemExit(f"the sweep ended before it was killed, with exit code {process.returncode}")
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    killed = time.perf_counter() - killed
    listing = concord("sweep", "plan", file, "--out", out)
    there = sum(row["state"] == CellState.DONE for row in listing["cells"])
    shown = _seconds(("sweep", "show", "--sweep", out, "--by", "engine"))
    rest, report = _run(file, "thousand", 2)
    return _on_one_and_two(file, "of-thousand") | {
        "seconds_plan": planning,
        "seconds_until_killed": killed,
        "done_when_killed": there,
        "seconds_list": shown,
        "made_by_the_rest": report["made"],
        "seconds_rest": rest,
        "done": report["done"],
    }


def _file(seeds: int, *, files: int = FILES) -> Path:
    """A sweep file with so many seeds and constraint files, each without another tenth of the rules."""
    rules = yaml.safe_load(CITATION_CONSTRAINTS.read_text())["constraints"]
    for k in range(files):
        own = [rule for i, rule in enumerate(rules) if i % FILES != k]
        (FOLDER / f"rules-{k}.yaml").write_text(yaml.safe_dump({"constraints": own}, sort_keys=False))
    file = FOLDER / f"seeds-{seeds}.yaml"
    cells = {
        "corpora": {"cora": {"train": str(corpus("citations")), "test": str(corpus("citations-dev"))}},
        "models": {"crf": {"trainer": "sgd", "options": {"features": "fields"}}},
        "constraints": {f"rules-{k}": [f"rules-{k}.yaml"] for k in range(files)},
        "engines": ENGINES,
        "seeds": list(range(seeds)),
        "measures": ["labels"],
    }
    file.write_text(yaml.safe_dump(cells, sort_keys=False))
    return file


def _run(file: Path, out: str, workers: int) -> tuple[float, dict[str, Any]]:
    """Seconds by the clock of a sweep into a folder of that name, and what it reports."""
    started = time.perf_counter()
    report = concord("sweep", "run", file, "--out", FOLDER / out, "--workers", str(workers))
    return time.perf_counter() - started, report


def _seconds(arguments: Iterable[str | Path]) -> float:
    started = time.perf_counter()
    concord(*arguments)
    return time.perf_counter() - started


def _cells(out: str) -> bytes:
    return (FOLDER / out / "cells.parquet").read_bytes()


def _done(out: Path) -> int:
    return len(list((out / "cells").glob("*.parquet")))


if __name__ == "__main__":
    main()
