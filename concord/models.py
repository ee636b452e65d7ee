"""Models: training on a labelled corpus, and calibration of a trained model."""

from __future__ import annotations

from os import PathLike, fspath
from typing import Any

from concord.flows.commands.calibrating import calibrate_model
from concord.flows.inputs.in_python import speaks_python
from concord.flows.inputs.options import validated
from concord.schemas.reports import CalibrationReport
from concord.schemas.run_context import RunContext
from concord.schemas.train_report import TrainReport
from concord.workers.learning.trainers.registry import DEFAULT, trainer_named
from concord.workers.models.settings import CalibrationSettings


@speaks_python
def train(
    corpus: str | PathLike[str],
    *,
    out: str | PathLike[str],
    trainer: str | None = None,
    tune: bool = False,
    consistency: bool = True,
    register: str | None = None,
    tracking: str | None = None,
    **options: Any,
) -> TrainReport:
    """Trains a model on a labelled corpus.

    - ``corpus``: the labelled corpus
    - ``out``: folder of the new model
    - ``trainer``: name of the trainer, see ``concord list trainers``
    - ``tune``: choose options that are not given by a search, such as cross-validation?
    - ``consistency``: learn on held-out documents how much the labels of one document should agree?
    - ``register``: name of the model in MLflow's registry
    - ``tracking``: address of MLflow
    - ``options``: options of the trainer, such as ``features=``

    Raises `InputError`.

    >>> report = concord.train("corpora/train", out="models/second", features="core")
    >>> report.documents
    60
    """
    from concord.flows.train import train as flow

    name = trainer or DEFAULT
    validated(options, trainer_named(name).settings, owner=f"trainer {name}")
    return flow(
        fspath(corpus),
        fspath(out),
        trainer=name,
        options=options,
        tune=tune,
        consistency=consistency,
        register_as=register,
        tracking=tracking,
    )


@speaks_python
def calibrate(
    model: str | PathLike[str],
    corpus: str | PathLike[str],
    *,
    out: str | PathLike[str],
    consistency: bool = True,
    tracking: str | None = None,
    **options: Any,
) -> CalibrationReport:
    """Fits a model to a labelled corpus, and saves the result as a new model.

    - ``model``: the model to be fitted
    - ``corpus``: the labelled corpus
    - ``out``: folder of the new model
    - ``consistency``: learn how much the labels of one document should agree?
    - ``tracking``: address of MLflow
    - ``options``: options of `CalibrationSettings`, for a model that reads another tagger's scores: its temperature and
      transitions are learned, too

    Raises `InputError`.

    >>> concord.calibrate("models/news", "corpora/train", out="models/fitted").documents
    60
    """
    return calibrate_model(
        fspath(model),
        fspath(corpus),
        fspath(out),
        settings=validated(options, CalibrationSettings, owner="calibrate"),
        consistency=consistency,
        context=RunContext(tracking=tracking),
    )
