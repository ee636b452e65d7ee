"""Models: training on a labelled corpus, and calibration of a trained model."""

from __future__ import annotations

from os import PathLike, fspath
from typing import Any

from concord.flows.commands.calibrating import calibrate_model
from concord.flows.inputs.in_python import several, speaks_python
from concord.flows.inputs.options import validated
from concord.flows.inputs.request_fields import takes_fields
from concord.schemas.learning_requests import TrainRequest
from concord.schemas.reports import CalibrationReport
from concord.schemas.run_context import RunContext
from concord.schemas.settings import takes_several
from concord.schemas.train_report import TrainReport
from concord.workers.learning.trainers.registry import trainer_named
from concord.workers.models.settings import CalibrationSettings


@speaks_python
@takes_fields(TrainRequest, names={"register_as": "register"}, rest="options")
def train(request: TrainRequest) -> TrainReport:
    """Trains a model on a labelled corpus.

    {fields}

    Raises `InputError`.

    >>> report = concord.train("corpora/train", out="models/second", features="core")
    >>> report.documents
    60
    """
    from concord.flows.train import train as flow

    settings = trainer_named(request.trainer).settings
    files = [name for name in settings.files if takes_several(settings.model_fields[name].annotation)]
    options = {name: several(value) if name in files else value for name, value in (request.options or {}).items()}
    validated(options, settings, owner=f"trainer {request.trainer}")
    return flow(request.model_copy(update={"options": options or None}))


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
    - ``options``: options of `CalibrationSettings`: what is learned beside label consistency: a temperature and, for
      another tagger's scores, transitions

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
