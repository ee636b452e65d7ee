"""What all benchmarks share: corpora and models by default, the command line, figures and pictures.

Where the real corpora are not beside the project the benchmarks make up their own, so each runs
from a clean clone. What they need is made once, in ``build/benchmarks``, and kept.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from concord.flows.environment import command
from concord.schemas.document import Batch
from concord.workers.constraints.consistency import LabelConsistency
from concord.workers.corpus.plan import plan
from concord.workers.corpus.shards import read_batch
from concord.workers.models.saved_consistency import saved_consistency

ROOT = Path(__file__).resolve().parent.parent
REAL = ROOT.parent / "shared" / "data"
MADE = ROOT / "build" / "benchmarks"
RESULTS = ROOT / "benchmarks" / "results"
PICTURES = ROOT / "docs" / "images"

TRAINER = ("--trainer", "crfsuite", "--set", "c2=0.3")
"""By which the models of published figures are trained: some benchmarks open CRFsuite's own file."""

TEN_PASSES = {"c2": 0.3, "passes": 10, "decay": 0.85, "dropout": 0.0}
"""Settings of the trainer sgd that train in seconds, for figures that do not turn on the model."""


def options(description: str | None, *, features: str) -> argparse.ArgumentParser:
    """A parser with the two options of every benchmark; ``features`` is the default model's."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", help="Parquet corpus; by default the real one where it is there, or a made-up one")
    parser.add_argument(
        "--model", type=Path, help=f"model folder; by default one with features {features}, trained once"
    )
    return parser


def environment() -> dict[str, str]:
    """The variables under which the command line runs: benchmarks keep their tracked runs to themselves."""
    prefect = MADE / ".concord" / "prefect"
    prefect.mkdir(parents=True, exist_ok=True)
    given = os.environ | {"CONCORD_HOME": str(MADE / ".concord"), "PREFECT_HOME": str(prefect)}
    given.pop("PYTHONDONTWRITEBYTECODE", None)  # with it each process compiles all that it imports, 2 s a command
    return given


def concord_command(*arguments: str | Path) -> list[str]:
    """The command line as it is typed, with ``--json``."""
    return [command("concord"), *map(str, arguments), "--json"]


def concord(*arguments: str | Path) -> dict[str, Any]:
    """Runs the command line to its end and returns what it reports; its progress goes to standard error."""
    typed = concord_command(*arguments)
    print("$", *typed, file=sys.stderr)
    ended = subprocess.run(typed, env=environment(), cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True)
    report: dict[str, Any] = json.loads(ended.stdout)
    return report


def trained_model(features: str, corpus: Path) -> Path:
    """A model with tuned label consistency, trained on a corpus with the command line's defaults."""
    out = MADE / "models" / f"{corpus.name}-{features}"
    if not (out / "manifest.json").is_file():
        concord("train", "--corpus", corpus, "--features", features, *TRAINER, "--out", out)
    return out


def consistency_of(model: Path) -> LabelConsistency:
    """The label consistency that was trained with a model."""
    consistency = saved_consistency(model)
    if consistency is None:
        raise SystemExit(f"{model} was trained without label consistency; give another --model")
    return consistency


def batches(corpus: str | Path) -> Iterator[Batch]:
    """The corpus, shard by shard."""
    for shard in plan(corpus):
        yield read_batch(shard)[0]


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {"cores": os.cpu_count(), "processor": _processor(), "python": platform.python_version()}


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").is_file() else []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def save(name: str, figures: dict[str, Any]) -> None:
    """Writes the figures to ``benchmarks/results`` and prints those that are numbers or words."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"machine": machine(), **figures}, indent=1) + "\n")
    for key, value in figures.items():
        if not isinstance(value, dict | list):
            print(f"{key:44}{_shown(value):>28}")
    print(f"figures in {os.path.relpath(path)}")


def known_figures(name: str) -> dict[str, Any]:
    """The figures that `save` wrote under this name, some of which are measured again; empty where there are none."""
    path = RESULTS / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    return found


def _shown(value: Any) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def figure(width: float, height: float) -> Figure:
    """An empty picture in the project's style, in inches."""
    mpl.rcParams |= {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    return Figure(figsize=(width, height), layout="constrained")


def draw(picture: Figure, name: str) -> None:
    """Writes the picture to ``docs/images``."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    path = PICTURES / f"{name}.png"
    picture.savefig(path, dpi=130)
    print(f"picture in {os.path.relpath(path)}")


def ray_workers(driver: int) -> list[int]:
    """Process ids of the actors below the driver."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
                names[int(folder.name)] = (folder / "cmdline").read_text()
            except OSError:
                continue  # it ended between the two looks
    return [pid for pid, name in names.items() if name.startswith("ray::ShardWorker") and _below(pid, driver, parents)]


def _below(pid: int, driver: int, parents: dict[int, int]) -> bool:
    while pid in parents and pid != driver:
        pid = parents[pid]
    return pid == driver
