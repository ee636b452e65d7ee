"""A new model is trained and challenges the one in use: the alias moves only where the new one is better."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from concord.flows.inputs.jobs import checked_places, folder_place
from concord.flows.inputs.output_places import check_inputs
from concord.flows.watched import watched
from concord.schemas.challenge import ChallengeReport
from concord.schemas.folders import FolderKind
from concord.schemas.requests import DEFAULT_TRAINER, ChallengeRequest
from concord.schemas.run import ALIAS, DEFAULT_RUN, RunSettings


@watched("challenge", ChallengeRequest, run_name="{register_as} by {corpus}")
def challenge(
    corpus: str,
    held_out: str,
    out: str,
    *,
    register_as: str,
    alias: str = ALIAS,
    trainer: str = DEFAULT_TRAINER,
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

    Raises `ChallengeError` for a held-out document that is in ``corpus``, and the errors of training and labelling.
    """
    request = ChallengeRequest.of(locals())
    folder = folder_place(out)
    places = checked_places([corpus, held_out], folder, makes=FolderKind.CHALLENGE, files=constraints)

    from concord.flows.training.unseen import check_unseen
    from concord.workers.labelling.labelled import check_settings
    from concord.workers.learning.trainers.given_features import check_given
    from concord.workers.learning.trainers.registry import trainer_named

    learning = trainer_named(trainer).settings.model_validate(options or {})
    labelling = check_settings(settings)
    check_inputs(folder, learning.places())
    check_given(learning)
    check_unseen(*places)

    from concord.flows.training.challenge_champion import ChallengeJob, challenge_champion

    parts = {"corpus": places[0], "held_out": places[1], "out": folder, "settings": labelling}
    return challenge_champion(ChallengeJob(**dict(request) | parts, trainer_settings=learning))
