"""`concord challenge`: a new model against the one in use. Heavy imports stay inside the command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field

from concord.flows.cli.arguments import REGISTER, AliasName, ContextOptions, Corpus, Declared, Set
from concord.flows.cli.settings_options import FieldOptions
from concord.flows.cli.trainer_flags import TrainerFlagOptions, TrainerName, trainer_pairs
from concord.schemas.challenge import ChallengeReport
from concord.schemas.run import ALIAS, RunSettings
from concord.schemas.settings import Settings, TextSettings

CHALLENGE_EXAMPLE = (
    "Example: concord challenge --corpus corpora/train/ --held-out corpora/testa/ --register news --out challenge/"
)
ENGINE_ALONE = (
    *("options", "certificates", "errors_of", "confidence", "margin_work", "n_best", "n_best_work"),
    *("certificate_nodes", "settle", *(f"text.{name}" for name in TextSettings.model_fields)),
)
"""Settings of a run that change no answer, or are given otherwise."""


class ChallengeChoices(Settings):
    """Options of `challenge` that are parameters of its flow, by the same names."""

    alias: AliasName = ALIAS
    consistency: Annotated[bool, typer.Option(help="Learn label consistency, and use that of either model.")] = True
    least_gain: float = Field(
        0.0,
        description="Fraction of F1 above which the whole 95 % interval of the gain has to lie; -0.002 lets a model "
        "pass that is no worse than by 0.2 points.",
    )


def challenge(
    *,
    corpus: Corpus,
    held_out: Annotated[
        str, typer.Option(help="Labelled corpus that judges both models; none of its documents is in --corpus.")
    ],
    register_as: Annotated[str, REGISTER],
    out: Annotated[Path, typer.Option(help="Folder for the new model, and for the answers of both.")],
    trainer: TrainerName = "sgd",
    flags: TrainerFlagOptions,
    set_: Set = None,
    declared: Annotated[Declared, FieldOptions(Declared, apart=("consistency",))],
    choices: Annotated[ChallengeChoices, FieldOptions(ChallengeChoices)],
    settings: Annotated[dict[str, Any], FieldOptions(RunSettings, apart=ENGINE_ALONE)],
    context: ContextOptions,
) -> ChallengeReport:
    """Train a new model, and put it into use if it is better than the one that is.

    Both label documents that neither has learned from. The alias moves only if the whole 95 % interval of the gain in
    F1, by the paired bootstrap over documents, lies above --least-gain. Options of the trainer are given as --set
    NAME=VALUE, those of the engine as --set decoding.NAME=VALUE.
    """
    from concord.flows.inputs.jobs import check_sources, source_place

    check_sources([corpus, held_out], files=declared.files)

    from concord.flows.challenge import challenge as run_challenge
    from concord.flows.inputs.options import with_engine
    from concord.workers.learning.trainers.registry import trainer_named

    pairs = trainer_pairs(trainer, flags, set_ or [])
    kind = trainer_named(trainer).settings
    options, of_engine = with_engine(pairs, kind, str(settings["engine"]), owner=f"trainer {trainer}", under="decoding")
    return run_challenge(
        corpus,
        held_out,
        str(out),
        register_as=register_as,
        trainer=trainer,
        options=options.model_dump(exclude_unset=True),
        settings=RunSettings(**settings, options=of_engine),
        constraints=list(map(source_place, declared.files)),
        **choices.model_dump(),
        **context.model_dump(),
    )
