"""Options of commands that train: the trainer's name, and flags for those of its settings that are given most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from concord.flows.cli.settings_options import FieldOptions
from concord.flows.inputs.given import Flag, beside_flags
from concord.schemas.learning_requests import ENCODER_HELP, POOL_HELP
from concord.schemas.settings import Settings


class TrainerFlags(Settings):
    """Options of a command that are settings of its trainer."""

    features: str | None = Field(
        None, description="Feature sets, joined by +; `concord list features` has them. Same as --set features=."
    )
    clusters: list[str] | None = Field(
        None,
        description="Cluster file of `concord clusters`, for the feature set clusters; may be given many times; glove "
        "stands for the table that comes with concord (default: glove).",
    )
    encoder: str | None = Field(None, description=ENCODER_HELP)
    vectors: str | None = Field(
        None,
        description="File of word vectors, such as GloVe's or word2vec's, or a name of `concord list resources`; they "
        "are put beside the features. Same as --set vectors=.",
    )
    gazetteer: list[str] | None = Field(
        None,
        description="File of phrases and their types (tab-separated or Parquet), for the feature set gazetteer; may "
        "be given many times.",
    )
    start_from: str | None = Field(
        None,
        description="Folder of a model whose weights training starts from, matched by the names of features. Same "
        "as --set start_from=.",
    )
    layers: str | None = Field(
        None,
        description="Layers of the corpus, joined by commas, whose labels the model learns to read, see `concord "
        "import entities`. Same as --set layers=.",
    )
    pool: str | None = Field(None, description=POOL_HELP)


TrainerFlagOptions = Annotated[TrainerFlags, FieldOptions(TrainerFlags)]


def trainer_pairs(trainer: str, flags: TrainerFlags, pairs: Sequence[str]) -> list[str]:
    """Settings of a trainer as ``NAME=VALUE``, those of flags among them. Raises `TrainerError` and `UsageError`."""
    given = {
        "features": Flag("--features", flags.features),
        "clusters": Flag("--clusters", flags.clusters),
        "vectors": Flag("--vectors", flags.vectors),
        "encoder": Flag("--encoder", flags.encoder),
        "start_from": Flag("--start-from", flags.start_from),
        "layers": Flag("--layers", None if flags.layers is None else flags.layers.split(",")),
        "pool": Flag("--pool", flags.pool),
        "gazetteers": Flag("--gazetteer", flags.gazetteer),
    }
    _check_flags(trainer, given)
    return beside_flags(pairs, given)


def _check_flags(trainer: str, flags: dict[str, Flag]) -> None:
    """Raises `TrainerError`, and `OptionError` for a flag that is an option which this trainer does not have."""
    from concord.flows.inputs.options import OptionError
    from concord.workers.learning.trainers.registry import TRAINERS, trainer_named

    known = trainer_named(trainer).settings.model_fields
    for name, flag in sorted(flags.items()):
        if flag.value is not None and name not in known:
            able = ", ".join(other for other, entry in TRAINERS.items() if name in entry.settings.model_fields)
            raise OptionError(f"{flag.name}: trainer {trainer} has no such option; trainers that have it: {able}")
