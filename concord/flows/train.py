"""Training of a model, and of its label consistency on documents that it has not seen."""

from __future__ import annotations

from concord.flows.inputs.jobs import check_sources, folder_place, source_place
from concord.flows.inputs.output_places import check_output_place
from concord.flows.screen.progress import say
from concord.flows.watched import watched
from concord.schemas.errors import TrainingError
from concord.schemas.folders import FolderKind
from concord.schemas.learning_requests import TrainingEffort, TrainRequest
from concord.schemas.settings import TrainerSettings
from concord.schemas.train_report import TrainReport


@watched("train", TrainRequest, run_name="{corpus}")
def train(request: TrainRequest) -> TrainReport:
    """Trains a model on a labelled corpus and saves it as the folder ``out``.

    The best model is looked for as `workers.learning.trainers.selection` says, that of memory-based n-grams as
    `workers.learning.search.progressive` does; the same call again goes on where that stopped.
    """
    corpus, out = source_place(request.corpus), folder_place(request.out)
    check_sources([corpus])

    from concord.flows.training.train_model import TrainJob, check_search, train_model
    from concord.workers.features.resources import gone_lines
    from concord.workers.learning.trainers.given_features import check_given
    from concord.workers.learning.trainers.registry import trainer_named

    settings = trainer_named(request.trainer).settings.model_validate(request.options or {})
    settings = _quick(request.trainer, settings) if request.effort is TrainingEffort.QUICK else settings
    check_search(request)
    if request.effort is TrainingEffort.BEST:
        for line in gone_lines():
            say(f"not tried: {line}", style="yellow")
    check_output_place(out, [corpus, *settings.places()], makes=FolderKind.MODEL)
    check_given(settings)
    return train_model(request.job(TrainJob, corpus=corpus, out=out, settings=settings))


def _quick(trainer: str, settings: TrainerSettings) -> TrainerSettings:
    """The settings for a first look. Raises `TrainingError` for a trainer that has no others for it."""
    from concord.workers.learning.trainers.registry import TRAINERS

    able = [name for name, entry in TRAINERS.items() if entry.settings.quick is not TrainerSettings.quick]
    if trainer not in able:
        raise TrainingError(
            f"--effort quick is for --trainer {' or '.join(able)}: {trainer} knows no quicker way; leave it out"
        )
    return settings.quick
