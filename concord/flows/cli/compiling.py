"""Kernels compiled on a made-up corpus: those of trainers and engines, at once or beside what will need them."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

MODEL = "lbfgs"
"""The trainer whose model the engines label with."""


def train(folder: Path, name: str) -> None:
    """Compiles what a trainer and its model's scores need, and leaves the model in a folder of its name."""
    from concord.schemas.document import Batch
    from concord.workers.learning.trainers.registry import TRAINERS

    trainer, documents = TRAINERS[name], _corpus()
    for options in (*trainer.kernels, {}):
        model = trainer.train(documents, settings=trainer.settings.model_validate(options), out=folder / name)
        model.potentials(Batch.of(documents))


def decode(folder: Path, engine: str, **settings: Any) -> None:
    """Compiles what an engine, and the settings beside it, need with the model in ``folder`` and any constraints."""
    from concord.workers.constraints.declared import DeclaredConstraints, JoinedConstraints
    from concord.workers.constraints.templates.linear import Legality

    given = _given(folder)
    declared = DeclaredConstraints((Legality(weight=1.0),))
    given["constraints"] = JoinedConstraints((given["constraints"], declared))
    _warm(given, engine, **settings)


@contextmanager
def proofs_compiled_beside(engine: str) -> Iterator[None]:
    """A process beside the block compiles what an exact engine needs, from the end: that of the sampler comes last.

    So it meets the process of the block half-way, which begins with the sampler.
    """
    with tempfile.TemporaryDirectory() as folder:
        process = get_context("spawn").Process(target=_compile_from_the_end, args=(engine, Path(folder)), daemon=True)
        process.start()
        try:
            yield
        finally:
            process.kill()
            process.join()


def _compile_from_the_end(engine: str, folder: Path) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it is interrupted, too, and ends it
    from concord.workers.labelling.warming import warm_local_search

    train(folder, MODEL)
    given = _given(folder / MODEL)
    warm_local_search(**given)
    _warm(given, engine, settle=True)  # which looks for a proof before the engine is asked


def _warm(given: dict[str, Any], engine: str, **settings: Any) -> None:
    from concord.schemas.run import RunSettings
    from concord.workers.labelling.labelled import check_settings
    from concord.workers.labelling.warming import warm

    warm(**given, settings=check_settings(RunSettings(engine=engine, seconds=20.0, **settings)))


def _given(folder: Path) -> dict[str, Any]:
    """A document, the model in ``folder``, and its label consistency."""
    from concord.workers.constraints.consistency import LabelConsistency, PairCounts
    from concord.workers.models.crf import load

    model, documents = load(folder), _corpus()
    consistency = LabelConsistency(PairCounts.of(documents, model.labels))
    return {"sample": documents[0], "model": model, "constraints": consistency}


def _corpus() -> list[Any]:
    """Documents to learn from and to label, with a layer for the trainers that learn from layers."""
    from concord.workers.synthesis.layered import with_layer
    from concord.workers.synthesis.made_up import synthesize

    return with_layer(synthesize(8, seed=0, kind="news"))
