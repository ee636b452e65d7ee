"""Training: a model, and the label consistency that is tuned on documents it has not seen."""

from __future__ import annotations

from typing import Any

from concord.flows.apart import check_apart
from concord.flows.jobs import check_sources, corpus_place, folder_place
from concord.flows.run_context import RunContext
from concord.flows.watched import watched
from concord.schemas.run import ALIAS, TrainReport
from concord.schemas.settings import Validation


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

    With ``tune``, those of the features, the prior, the cut-off and dropout that are not among the ``options`` are
    chosen by cross-validation over documents first, see `workers.learning.trainers.selection`; those of memory-based
    n-grams by wrapped progressive sampling on a Ray cluster (``ray``, ``workers``), of at most ``largest_sample``
    tokens, see `workers.learning.search.progressive`. The same call again goes on with that where it stopped.
    With ``consistency`` a second model is trained without the share ``held_out_share`` of the documents
    first, and the scales of the label consistency are tuned on that share. ``validation`` says which documents judge
    either: random ones, or the last ones of the corpus. ``trainer`` is one of
    `workers.learning.trainers.registry.TRAINERS` (none: `DEFAULT` there), ``options`` are those of its settings.
    ``register_as`` names the model in MLflow's registry.
    """
    place, folder = corpus_place(corpus), folder_place(out)
    check_sources([place])

    from concord.flows.train_model import TrainRequest, check_search, inputs_of, train_model
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
    check_apart(request.out, inputs_of(request), model=True)
    return train_model(request)
