"""Models: trained on a labelled corpus, or fitted to one."""

from __future__ import annotations

from os import PathLike, fspath
from typing import Any

from concord.flows.commands.calibrating import calibrate_model
from concord.flows.run_context import RunContext
from concord.options import checked
from concord.schemas.reports import CalibrationReport
from concord.schemas.run import TrainReport
from concord.workers.learning.trainers.registry import DEFAULT, trainer_named
from concord.workers.models.settings import CalibrationSettings


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
    """A model of a labelled corpus in the folder ``out``, and how much labels of one document should agree.

    ``trainer`` is one of ``concord list trainers`` and ``options`` are its own, such as ``features=``; with ``tune``
    those that are not given are chosen by cross-validation. ``consistency`` learns the agreement of labels on documents
    held out. ``register`` names the model in MLflow's registry at ``tracking``. Raises `InputError`.

    >>> report = concord.train("corpora/train", out="models/second", features="core")
    >>> report.documents
    60
    """
    from concord.flows.train import train as flow

    name = trainer or DEFAULT
    checked(trainer_named(name).settings, options, owner=f"trainer {name}")
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


def calibrate(
    model: str | PathLike[str],
    corpus: str | PathLike[str],
    *,
    out: str | PathLike[str],
    consistency: bool = True,
    tracking: str | None = None,
    **options: Any,
) -> CalibrationReport:
    """A model fitted to a labelled corpus, as a new model in the folder ``out``.

    Of every model the agreement of labels is learned (``consistency``); of one that reads another tagger's scores,
    temperature and transitions as well, with ``options`` of `CalibrationSettings`. Raises `InputError`.

    >>> concord.calibrate("models/news", "corpora/train", out="models/fitted").documents
    60
    """
    return calibrate_model(
        fspath(model),
        fspath(corpus),
        fspath(out),
        settings=checked(CalibrationSettings, options, owner="calibrate"),
        consistency=consistency,
        context=RunContext(tracking=tracking),
    )
