"""Training of a model, and of its label consistency on documents that it has not seen."""

from __future__ import annotations

from typing import Any

from concord.flows.inputs.apart import check_apart
from concord.flows.inputs.jobs import check_sources, folder_place, source_place
from concord.flows.inputs.run_context import RunContext
from concord.flows.watched import watched
from concord.schemas.folders import FolderKind
from concord.schemas.run import ALIAS
from concord.schemas.settings import Validation
from concord.schemas.train_report import TrainReport


@watched("train", run_name="{corpus}")
def train(
    corpus: str,
    out: str,
    *,
    trainer: str | None = None,
    options: dict[str, Any] | None = None,
    tune: bool = False,
    consistency: bool = True,
    held_out_share: float = 0.2,
    validation: Validation = Validation.RANDOM,
    register_as: str | None = None,
    alias: str = ALIAS,
    tracking: str | None = None,
    ray: str | None = None,
    workers: int | None = None,
    largest_sample: int | None = None,
) -> TrainReport:
    """Trains a model on a labelled corpus and saves it as the folder ``out``.

    - ``trainer``: one of `workers.learning.trainers.registry.TRAINERS` (None: `DEFAULT` there).
    - ``options``: options of the trainer, by name.
    - ``tune``: choose options that are not given? Features, prior, cut-off and dropout: by cross-validation over
      documents, see `workers.learning.trainers.selection`. Memory-based n-grams: by wrapped progressive sampling on
      Ray, see `workers.learning.search.progressive`; the same call again goes on where that stopped.
    - ``consistency``: tune the scales of label consistency on documents that a second model is trained without?
    - ``held_out_share``: fraction of the documents kept apart to tune label consistency.
    - ``validation``: documents that judge options and consistency: random ones, or the last ones of the corpus.
    - ``register_as``, ``alias``: name and alias in MLflow's registry (no name: not registered).
    - ``tracking``: MLflow tracking URI (None: as the environment says).
    - ``ray``, ``workers``: cluster's address and number of actors for trials, as in `flows.reprocess.reprocess`.
    - ``largest_sample``: largest training sample of a trial, in tokens (None: the whole corpus).
    """
    place, folder = source_place(corpus), folder_place(out)
    check_sources([place])

    from concord.flows.training.train_model import TrainRequest, check_search, train_model
    from concord.workers.learning.trainers.registry import DEFAULT, trainer_named

    request = TrainRequest(
        corpus=place,
        out=folder,
        trainer=trainer or DEFAULT,
        settings=trainer_named(trainer or DEFAULT).settings.model_validate(options or {}),
        tune=tune,
        consistency=consistency,
        held_out_share=held_out_share,
        validation=validation,
        register_as=register_as,
        alias=alias,
        largest_sample=largest_sample,
        context=RunContext(ray=ray, workers=workers, tracking=tracking),
    )
    check_search(request)
    check_apart(request.out, [request.corpus, *request.settings.places()], makes=FolderKind.MODEL)
    return train_model(request)
