"""Compiles every numba kernel while the image is built, so that no node starts cold."""

from __future__ import annotations

import tempfile
from pathlib import Path

from schemas.run import RunSettings
from workers.constraints.consistency import LabelConsistency, PairCounts
from workers.inference.registry import SOLVERS
from workers.labelling.labelled import check_settings
from workers.labelling.warming import warm
from workers.learning.trainers.registry import TRAINERS
from workers.synthesis.made_up import synthesize


def main() -> None:
    """Warms up every trainer and every engine."""
    documents = list(synthesize(8, seed=0, kind="news"))
    with tempfile.TemporaryDirectory() as folder:
        for name, trainer in TRAINERS.items():
            model = trainer.train(documents, settings=trainer.settings(), out=Path(folder) / name)
        constraints = LabelConsistency(PairCounts.of(documents, model.labels))
        for engine in SOLVERS:
            settings = check_settings(RunSettings(engine=engine, seconds=20.0))
            warm(documents[0], model=model, constraints=constraints, settings=settings)


if __name__ == "__main__":
    main()
