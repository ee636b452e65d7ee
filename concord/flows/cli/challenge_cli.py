"""`concord challenge`: a new model against the one in use. Heavy imports stay inside the command."""

from __future__ import annotations

from typing import Annotated

from concord.flows.cli.arguments import Set
from concord.flows.cli.settings_options import A_PATH, REGISTER, FieldOptions
from concord.flows.cli.trainer_flags import TrainerFlagOptions, trainer_pairs
from concord.flows.cli.tree import CommandTree
from concord.schemas.challenge import ChallengeReport
from concord.schemas.learning_requests import ChallengeRequest

app = CommandTree()

CHALLENGE_EXAMPLE = (
    "Example: concord challenge --corpus corpora/train/ --held-out corpora/testa/ --register news --out challenge/"
)
ENGINE_ALONE = (
    *("settings.options", "settings.certificates", "settings.errors_of", "settings.confidence", "settings.margin_work"),
    *("settings.n_best", "settings.n_best_work", "settings.certificate_nodes", "settings.settle", "settings.text"),
)
"""Settings of a run that change no answer, or are given otherwise."""


CHALLENGE_FORMS = {"out": A_PATH, "register_as": REGISTER}


@app.command(epilog=CHALLENGE_EXAMPLE)
def challenge(
    *,
    request: Annotated[
        ChallengeRequest, FieldOptions(ChallengeRequest, apart=("options", *ENGINE_ALONE), forms=CHALLENGE_FORMS)
    ],
    flags: TrainerFlagOptions,
    set_: Set = None,
) -> ChallengeReport:
    """Train a new model, and put it into use if it is better than the one that is.

    Both label documents that neither has learned from. The alias moves only if the whole 95 % interval of the gain in
    F1, by the paired bootstrap over documents, lies above --least-gain. Options of the trainer are given as --set
    NAME=VALUE, those of the engine as --set decoding.NAME=VALUE.
    """
    from concord.flows.inputs.jobs import check_sources, source_place

    check_sources([request.corpus, request.held_out], files=request.constraints)

    from concord.flows.challenge import challenge as run_challenge
    from concord.flows.inputs.options import with_engine
    from concord.workers.learning.trainers.registry import trainer_named

    trainer, engine = request.trainer, request.settings.engine
    pairs = trainer_pairs(trainer, flags, set_ or [])
    kind = trainer_named(trainer).settings
    options, of_engine = with_engine(pairs, kind, engine, owner=f"trainer {trainer}", under="decoding")
    parts = {
        "options": options.model_dump(exclude_unset=True),
        "settings": request.settings.model_copy(update={"options": of_engine}),
        "constraints": tuple(map(source_place, request.constraints)),
    }
    return run_challenge(request.model_copy(update=parts))
