"""Forged runs against `concord verify`: every engine, label scheme and column, with certificates and without.

A run of made-up documents is made, verified, and then forged in each of the ways of ``tests/support/forgeries.py`` that
apply to it, digests renewed; documents are forged one way each, several at a time. Counted is what verify refuses by
naming the document and the field, or the part of the manifest.

    python benchmarks/bench_forgeries.py
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from common import ROOT, save

sys.path.insert(0, str(ROOT))

from concord.flows.commands.verify import verify
from concord.schemas.labels import Scheme
from concord.workers.inference.registry import SOLVERS
from tests.support.forgeries import OF_MANIFESTS, OF_ROWS, OF_TOTALS, forge_rows, opened, refused
from tests.support.made_folders import CalibratedModel, MadeRun, made_run

DOCUMENTS = 8
AT_ONCE = 16
"""Ways to forge that are offered to the documents of a run together."""


def main() -> None:
    """Measures and saves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", action="append", help="may be given many times; all without it")
    chosen = parser.parse_args()
    started, tables, accepted = time.process_time(), Counter[str](), list[str]()
    honest = 0
    with tempfile.TemporaryDirectory() as scratch:
        for number, (scheme, engine, settings) in enumerate(_runs(chosen.engine)):
            run = made_run(Path(scratch) / str(number), scheme, engine=engine, seed=number, count=DOCUMENTS, **settings)
            with run.opened():
                faults = verify(str(run.out)).failed
            accepted += [f"honest {scheme} {engine}: {fault}" for fault in faults]
            honest += not faults
            for way, found in (*_rows(run, Path(scratch), number), *_manifests(run, Path(scratch), number)):
                tables.update((f"scheme {scheme}", f"engine {engine}", "certificates" if _certified(run) else "none"))
                if not found:
                    accepted.append(f"{scheme} {engine}: {way}")
            print(f"{scheme} {engine}: {sum(tables.values()) // 3} forgeries, {len(accepted)} accepted", flush=True)
    save(
        "forgeries",
        {
            "honest runs confirmed": honest,
            "forged runs": sum(count for name, count in tables.items() if name.startswith("engine")),
            "accepted": len(accepted),
            "which": accepted,
            "ways": len(OF_ROWS) + len(OF_MANIFESTS) + len(OF_TOTALS),
            "by": dict(sorted(tables.items())),
            "cpu seconds": round(time.process_time() - started, 1),
        },
    )


def _runs(engines: list[str] | None) -> list[tuple[Scheme, str, dict[str, Any]]]:
    """Scheme, engine and settings of each run; those with confidence and lists have no hopeless document."""
    calibrated = {"model_class": CalibratedModel}
    kinds: list[dict[str, Any]] = [{"confidence": "margin", "n_best": 3} | calibrated, {"impossible": True}]
    kinds.append({"impossible": True, "on_infeasible": "relax"})
    runs = []
    for scheme in Scheme:
        for engine in engines or SOLVERS:
            for settings in kinds:
                runs.append((scheme, engine, settings))
                if SOLVERS[engine].certifies:
                    runs.append((scheme, engine, settings | {"certificates": True}))
    return runs


def _certified(run: MadeRun) -> bool:
    return run.key.settings.certificates


def _rows(run: MadeRun, scratch: Path, number: int) -> list[tuple[str, bool]]:
    """Each way to forge a document, and whether it was refused by its name and field."""
    rng, waiting, tried = np.random.default_rng(number), list(OF_ROWS), list[tuple[str, bool]]()
    while waiting:
        forged = opened(run)
        done = forge_rows(forged, waiting[:AT_ONCE], rng)
        names = {way.name for way, _ in done.values()}
        later = [way for way in waiting[:AT_ONCE] if way.name not in names] if done else []
        waiting = later + waiting[AT_ONCE:]
        if not done:
            continue
        found = refused(forged, scratch / f"{number}-rows-{len(tried)}")
        for doc_id, (way, field) in done.items():
            own = [fault for fault in found if fault.doc_id == doc_id or not way.of_document]
            tried.append((way.name, any(fault.field.startswith(field) and fault.file for fault in own)))
    return tried


def _manifests(run: MadeRun, scratch: Path, number: int) -> list[tuple[str, bool]]:
    """Each way to forge a manifest, and whether it was refused."""
    rng, tried = np.random.default_rng(number), list[tuple[str, bool]]()
    for way in (*OF_MANIFESTS, *OF_TOTALS.values()):
        forged = opened(run)
        if way.change(forged, rng) is not None:
            tried.append((way.name, bool(refused(forged, scratch / f"{number}-manifest-{len(tried)}"))))
    return tried


if __name__ == "__main__":
    main()
