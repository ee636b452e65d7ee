"""A new model is trained and challenges the one in use: the alias moves only where the new one is better."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from concord.flows.inputs.apart import check_inputs
from concord.flows.inputs.jobs import checked_places, folder_place
from concord.flows.inputs.run_context import RunContext
from concord.flows.watched import watched
from concord.schemas.challenge import ChallengeReport
from concord.schemas.folders import FolderKind
from concord.schemas.run import ALIAS, DEFAULT_RUN, RunSettings


@watched("challenge", run_name="{register_as} by {corpus}")
def challenge(
    corpus: str,
    held_out: str,
    out: str,
    *,
    register_as: str,
    alias: str = ALIAS,
    trainer: str | None = None,
    options: dict[str, Any] | None = None,
    settings: RunSettings = DEFAULT_RUN,
    constraints: Sequence[str] = (),
    consistency: bool = True,
    least_gain: float = 0.0,
    tracking: str | None = None,
    ray: str | None = None,
    workers: int | None = None,
) -> ChallengeReport:
    """Trains on ``corpus`` and, if that is better on ``held_out``, makes it the model that ``alias`` names.

    - ``held_out``: labelled documents, none of which is in ``corpus``
    - ``out``: folder for the new model, and for the answers of both
    - ``register_as``: name in MLflow's registry; the new version gets the alias ``challenger``
    - ``trainer``, ``options``: as in `flows.train.train`
    - ``consistency``: learns label consistency, and uses that of either model
    - ``settings``, ``constraints``: by which both models label the held-out documents
    - ``least_gain``: fraction of F1 that the whole interval of the gain (paired bootstrap over documents) has to exceed
    - ``tracking``, ``ray``, ``workers``: as in `flows.reprocess.reprocess`

    Raises `ChallengeError` for a held-out document that is in ``corpus``, and the errors of training and labelling.
    """
    folder = folder_place(out)
    places = checked_places([corpus, held_out], folder, makes=FolderKind.CHALLENGE, files=constraints)

    from concord.flows.training.unseen import check_unseen
    from concord.workers.labelling.labelled import check_settings
    from concord.workers.learning.trainers.registry import DEFAULT, trainer_named

    learning = trainer_named(trainer or DEFAULT).settings.model_validate(options or {})
    labelling = check_settings(settings)
    check_inputs(folder, learning.places())
    check_unseen(*places)

    from concord.flows.training.challenge_champion import ChallengeRequest, challenge_champion

    request = ChallengeRequest(
        corpus=places[0],
        held_out=places[1],
        out=folder,
        name=register_as,
        alias=alias,
        trainer=trainer or DEFAULT,
        trainer_settings=learning,
        settings=labelling,
        constraints=tuple(constraints),
        consistency=consistency,
        least_gain=least_gain,
        context=RunContext(ray=ray, workers=workers, tracking=tracking),
    )
    return challenge_champion(request)
