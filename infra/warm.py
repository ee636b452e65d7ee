"""Compiles every numba kernel before anything needs one: as the image is built, and before the tests run."""

from __future__ import annotations

import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from concord.flows.cli.compiling import MODEL, decode, train
from concord.workers.inference.registry import SOLVERS
from concord.workers.learning.trainers.registry import TRAINERS

SHARED = "viterbi"
"""The engine that needs next to nothing of its own: with confidences and rankings, what engines have in common."""


def main() -> None:
    """Warms up what all engines share in one process, and every trainer and engine in another, then in both."""
    with tempfile.TemporaryDirectory() as name, ProcessPoolExecutor(2) as pool:
        folder = Path(name)
        train(folder, MODEL)
        shared = pool.submit(decode, folder / MODEL, SHARED, confidence="marginal", n_best=3)
        rest = [pool.submit(train, folder, trainer) for trainer in TRAINERS if trainer != MODEL]
        rest += [pool.submit(decode, folder / MODEL, engine) for engine in SOLVERS]
        for job in (shared, *rest):
            job.result()


if __name__ == "__main__":
    main()
