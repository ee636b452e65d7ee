"""Training of a model, and of its label consistency on documents that it has not seen."""

from __future__ import annotations

from typing import Any

from concord.flows.inputs.jobs import check_sources, folder_place, source_place
from concord.flows.inputs.output_places import check_output_place
from concord.flows.watched import watched
from concord.schemas.folders import FolderKind
from concord.schemas.requests import DEFAULT_TRAINER, TrainRequest
from concord.schemas.run import ALIAS
from concord.schemas.settings import Validation
from concord.schemas.train_report import TrainReport


@watched("train", TrainRequest, run_name="{corpus}")
def train(
    corpus: str,
    out: str,
    *,
    trainer: str = DEFAULT_TRAINER,
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

    Options are tuned as `workers.learning.trainers.selection` says, those of memory-based n-grams as
    `workers.learning.search.progressive` does, where the same call again goes on where that stopped.
    """
    request = TrainRequest.of(locals())
    place, folder = source_place(corpus), folder_place(out)
    check_sources([place])

    from concord.flows.training.train_model import TrainJob, check_search, train_model
    from concord.workers.learning.trainers.given_features import check_given
    from concord.workers.learning.trainers.registry import trainer_named
    from concord.workers.learning.trainers.selection import with_sets_of_files

    settings = trainer_named(trainer).settings.model_validate(options or {})
    check_search(request)
    check_output_place(folder, [place, *settings.places()], makes=FolderKind.MODEL)
    check_given(with_sets_of_files(settings) if tune else settings)
    return train_model(TrainJob(**dict(request) | {"corpus": place, "out": folder, "settings": settings}))
