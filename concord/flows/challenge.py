"""A new model is trained and challenges the one in use: the alias moves only where the new one is better."""

from __future__ import annotations

from concord.flows.inputs.jobs import checked_places, folder_place
from concord.flows.inputs.output_places import check_inputs
from concord.flows.watched import watched
from concord.schemas.challenge import ChallengeReport
from concord.schemas.folders import FolderKind
from concord.schemas.learning_requests import ChallengeRequest


@watched("challenge", ChallengeRequest, run_name="{register_as} by {corpus}")
def challenge(request: ChallengeRequest) -> ChallengeReport:
    """Trains on ``corpus`` and, if that is better on ``held_out``, makes it the model that ``alias`` names.

    Raises `ChallengeError` for a held-out document that is in ``corpus``, and the errors of training and labelling.
    """
    out = folder_place(request.out)
    corpus, held_out = checked_places(
        [request.corpus, request.held_out], out, makes=FolderKind.CHALLENGE, files=request.constraints
    )

    from concord.flows.training.unseen import check_unseen
    from concord.workers.labelling.labelled import check_settings
    from concord.workers.learning.trainers.given_features import check_given
    from concord.workers.learning.trainers.registry import trainer_named

    learning = trainer_named(request.trainer).settings.model_validate(request.options or {})
    settings = check_settings(request.settings)
    check_inputs(out, learning.places())
    check_given(learning)
    check_unseen(corpus, held_out)

    from concord.flows.training.challenge_champion import ChallengeJob, challenge_champion

    parts = {"corpus": corpus, "held_out": held_out, "out": out, "settings": settings}
    return challenge_champion(request.job(ChallengeJob, **parts, trainer_settings=learning))
