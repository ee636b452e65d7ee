"""Compiles every numba kernel before anything needs one: as the image is built, and before the tests run."""

from __future__ import annotations

import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from concord.schemas.document import Batch, Document
from concord.schemas.run import RunSettings
from concord.workers.constraints.consistency import LabelConsistency, PairCounts
from concord.workers.constraints.declared import DeclaredConstraints, JoinedConstraints
from concord.workers.constraints.templates.linear import Legality
from concord.workers.inference.registry import SOLVERS
from concord.workers.labelling.labelled import check_settings
from concord.workers.labelling.warming import warm
from concord.workers.learning.trainers.registry import TRAINERS
from concord.workers.models.crf import load
from concord.workers.synthesis.made_up import synthesize

MODEL = "lbfgs"
"""The trainer whose model the engines label with."""

SHARED = "viterbi"
"""The engine that needs next to nothing of its own: with confidences and rankings, what engines have in common."""

MORE: dict[str, tuple[dict[str, str], ...]] = {"trigram": ({"metric": "mvdm"},)}
"""Options of trainers that need other kernels than the defaults; Jeffrey's divergence has MVDM's."""


def main() -> None:
    """Warms up what all engines share in one process, and every trainer and engine in another, then in both."""
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(2) as pool:
        train(Path(folder), MODEL)
        shared = pool.submit(decode, Path(folder) / MODEL, SHARED, confidence="marginal", n_best=3)
        rest = [pool.submit(train, Path(folder), name) for name in TRAINERS if name != MODEL]
        rest += [pool.submit(decode, Path(folder) / MODEL, name) for name in SOLVERS]
        for job in (shared, *rest):
            job.result()


def train(folder: Path, name: str) -> None:
    """Compiles what a trainer and its model's scores need, and leaves the model in a folder of its name."""
    trainer, documents = TRAINERS[name], corpus()
    for options in (*MORE.get(name, ()), {}):
        model = trainer.train(documents, settings=trainer.settings.model_validate(options), out=folder / name)
        model.potentials(Batch.of(documents))


def decode(folder: Path, engine: str, **settings: Any) -> None:
    """Compiles what an engine, and the settings beside it, need with the model in ``folder``."""
    model, documents = load(folder), corpus()
    consistency = LabelConsistency(PairCounts.of(documents, model.labels))
    constraints = JoinedConstraints((consistency, DeclaredConstraints((Legality(weight=1.0),))))
    checked = check_settings(RunSettings(engine=engine, seconds=20.0, **settings))
    warm(documents[0], model=model, constraints=constraints, settings=checked)


def corpus() -> list[Document]:
    """Documents to learn from and to label."""
    return list(synthesize(8, seed=0, kind="news"))


if __name__ == "__main__":
    main()
