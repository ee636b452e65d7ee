"""Runs sweep files of ``benchmarks/sweeps`` and keeps their figures in ``benchmarks/results``.

Corpora are made first; a sweep that reads clusters of words says so, and has them made. Sweeps and their models stay in
``build/benchmarks/sweeps``: the same command again does only what is left.

    python benchmarks/sweeps.py             # all
    python benchmarks/sweeps.py offsets training
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
from common import MADE, ROOT, concord, save
from corpora import corpus

from concord.schemas.sweep import AXES
from concord.sweeps import read_sweep

FILES = ROOT / "benchmarks" / "sweeps"
BESIDE = {"penalty": "penalty_nats", "certified": "certified"}
"""Measures whose sums are kept beside the figures, and their names there: one is also that of an axis."""


class Shown(NamedTuple):
    """What is kept of a sweep: figures by the values of an axis, and differences from the values in ``bases``."""

    by: str
    bases: tuple[str, ...]
    measures: tuple[str, ...] = ("spans.f1",)


SWEEPS = {
    "citations": Shown("constraints", ("rules",), ("labels.accuracy",)),
    "corpora": Shown("model", ("rich", "rich-nopos", "fields")),
    "features": Shown("model", ("ten passes features=core+pos",)),
    "features-later": Shown("model", ("rich",)),
    "features-public": Shown("model", ("ten passes",)),
    "models": Shown("model", ("ten passes features=rich",)),
    "models-public": Shown("model", ("ten passes",)),
    "offsets": Shown("corpus", ("whole",), ("spans.f1", "offsets.f1")),
    "penalties": Shown("penalty", ("nothing",), ("labels.accuracy",)),
    "steps": Shown("model", ("default", "posts, default", "chunks, default", "fields, default")),
    "steps-once": Shown("model", ("default", "posts, default", "fields, default")),
    "steps-public": Shown("model", ("default", "posts, default", "chunks, default", "fields, default")),
    "substrings": Shown("model", ("finkel", "finkel-tf")),
    "words": Shown("model", ("tags", "no tags", "fields")),
    "training": Shown("model", ("before", "before, no tags", "before, fields")),
}


def figures(folder: Path, shown: Shown) -> Iterator[dict[str, Any]]:
    """A row for each value of the axis beside each combination of the others: figures with intervals, CPU seconds.

    A figure has its ``over``: by base the difference with its interval.
    """
    found, rows = read_sweep(folder), dict[tuple[Any, ...], dict[str, Any]]()
    for measure in shown.measures:
        for base in shown.bases:
            for own in found.compare(by=shown.by, against=base, measure=measure).to_pylist():
                place: dict[str, Any] = {axis: own[axis] for axis in AXES if axis in own}
                row = rows.setdefault(tuple(place.values()), {**place, "documents": own["documents"]})
                figure = row.setdefault(measure, {name: own[name] for name in ("value", "low", "high")} | {"over": {}})
                if own["change"] is not None:
                    figure["over"][base] = [own[name] for name in ("change", "change_low", "change_high")]
    spent = list(_spent(folder))
    for row in rows.values():
        mine = [one for one in spent if all(one[axis] == row[axis] for axis in AXES if axis in row)]
        yield row | {name: round(sum(one[name] or 0.0 for one in mine), 2) for name in mine[0] if name not in AXES}


def _spent(folder: Path) -> Iterator[dict[str, Any]]:
    """Axes of each cell, CPU seconds of its engine and of training its model, its penalty and documents proven."""
    times = {row["cell"]: row for row in pq.read_table(folder / "times.parquet").to_pylist()}
    cells: dict[str, dict[str, Any]] = {}
    for row in pq.read_table(folder / "cells.parquet").to_pylist():
        own = cells.setdefault(row["cell"], {axis: row[axis] for axis in AXES})
        if row["measure"] in BESIDE:
            own[BESIDE[row["measure"]]] = row["value"]
    for name, own in cells.items():
        yield own | {key: times[name][key] for key in ("cpu_seconds", "training_cpu_seconds")}


def main() -> None:
    """Runs the sweeps that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*SWEEPS, []], metavar="NAME", help="sweeps (default: all)")
    for name in parser.parse_args().names or SWEEPS:
        file, out = FILES / f"{name}.yaml", MADE / "sweeps" / name
        text = file.read_text()
        for needed in sorted(set(re.findall(r"build/benchmarks/corpora/([\w-]+)", text))):
            corpus(needed)
        report = concord("sweep", "run", file, "--out", out, "--retry-failed")
        spent = {"cells": report["cells"], "cpu_seconds": report["cpu_seconds"]}
        save(
            name.replace("-", "_"),
            {"sweep": str(file.relative_to(ROOT)), **spent, "rows": list(figures(out, SWEEPS[name]))},
        )


if __name__ == "__main__":
    main()
