"""`concord train`: a model of a labelled corpus. Heavy imports stay inside the command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from concord.flows.cli.arguments import Set
from concord.flows.cli.settings_options import A_PATH, REGISTER, FieldOptions
from concord.flows.cli.trainer_flags import TrainerFlagOptions, trainer_pairs
from concord.flows.cli.tree import CommandTree
from concord.schemas.learning_requests import TrainingEffort, TrainRequest
from concord.schemas.train_report import TrainReport

app = CommandTree()


TRAIN_FORMS = {"out": A_PATH, "register_as": REGISTER}


def _is_search(given: Mapping[str, Any]) -> bool:
    """Whether a training tries settings, of which those that are done are not tried again."""
    return given["effort"] is TrainingEffort.BEST


@app.command(
    epilog="Example: concord train --corpus corpora/train/ --out models/news/",
    resumes=_is_search,
)
def train(
    *,
    request: Annotated[TrainRequest, FieldOptions(TrainRequest, apart=("options",), forms=TRAIN_FORMS)],
    flags: TrainerFlagOptions,
    set_: Set = None,
) -> TrainReport:
    """Train a model and its label consistency on a labelled corpus."""
    from concord.flows.inputs.jobs import check_sources
    from concord.flows.train import train as run_training

    check_sources([request.corpus])

    from concord.flows.inputs.options import parse_options
    from concord.workers.learning.trainers.registry import trainer_named

    pairs = trainer_pairs(request.trainer, flags, set_ or [])
    settings = parse_options(pairs, trainer_named(request.trainer).settings, owner=f"trainer {request.trainer}")
    return run_training(request.model_copy(update={"options": settings.model_dump(exclude_unset=True)}))
