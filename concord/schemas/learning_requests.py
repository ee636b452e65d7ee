"""What flows that learn are asked for: training, sweeps, a challenger, learning from a pool; see `schemas.requests`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from pydantic import Field

from concord.schemas.codl import CodlSettings
from concord.schemas.requests import CONSTRAINTS_HELP, CORPUS_HELP, SHARD_HELP, FlowRequest
from concord.schemas.run import ALIAS, DEFAULT_RUN, RunSettings
from concord.schemas.run_context import HERE, RunContext
from concord.schemas.settings import Validation

TRAINER_HELP = "Trainer that learns the model; `concord list trainers` has them."
TRAINER_OPTIONS_HELP = "Options of the trainer, by name; `concord list trainers` has them."
POOL_HELP = "Second corpus to learn from; its labels, if it has any, are not read."
ENCODER_HELP = (
    "Folder of a transformer in ONNX (model.onnx, tokenizer.json), or a name of `concord list resources`, for what it "
    "knows of words from other texts; it is not trained."
)
REGISTER_HELP = "Name under which MLflow's registry keeps the model."
ALIAS_HELP = "Alias of the model in use, in MLflow's registry, which moves to the new version."
JUDGING_HELP = (
    "Held-out documents. later: the last ones of the corpus, in the order of files and rows (the default of `train`). "
    "random: a sample by id (the default elsewhere)."
)
"""Texts that several options share."""

DEFAULT_CODL = CodlSettings()

DEFAULT_TRAINER = "sgd"
"""Trainer where none is named."""


class TrainingEffort(StrEnum):
    """How much work a training puts into a better model."""

    QUICK = "quick"
    NORMAL = "normal"
    BEST = "best"


class TrainRequest(FlowRequest):
    """Request to train a model: `flows.train`."""

    corpus: str = Field(description=CORPUS_HELP)
    out: str = Field(description="Folder for the model.")
    trainer: str = Field(DEFAULT_TRAINER, description=TRAINER_HELP)
    options: Mapping[str, Any] | None = Field(None, description=TRAINER_OPTIONS_HELP)
    effort: TrainingEffort = Field(
        TrainingEffort.NORMAL,
        description="Work for a better model. quick: a third of the passes, for a first look (trainers sgd, "
        "ensemble and taggers). normal: the default options. best: step by step what gains on documents that are held "
        "apart, and what to expect of it (trainer trigram: by wrapped progressive sampling); --workers tries several "
        "steps at once. Options that you give stay as they are.",
    )
    minutes: float | None = Field(
        None,
        gt=0,
        description="With --effort best: begin no step that would not be done in so many minutes (default: try all).",
    )
    cpu_seconds: float | None = Field(None, gt=0, description="Like --minutes: CPU seconds of all calls and workers.")
    consistency: bool = Field(
        default=True,
        description="Learn label consistency, tuned on documents that the model has not learned from.",
    )
    held_out_share: float = Field(
        0.2, ge=0.01, le=0.9, description="Fraction of the documents kept apart to tune label consistency."
    )
    validation: Validation = Field(Validation.LATER, description=JUDGING_HELP)
    register_as: str | None = Field(None, description=REGISTER_HELP)
    alias: str = Field(ALIAS, description=ALIAS_HELP)
    largest_sample: int | None = Field(
        None,
        ge=500,
        description="Largest training sample of a trial of trigram, in tokens (default: the whole corpus); a smaller "
        "one tunes sooner.",
    )
    context: RunContext = HERE


class SweepRequest(FlowRequest):
    """Request to do the cells of a sweep file: `flows.sweep`."""

    file: str = Field(description="Sweep file (YAML); `docs/sweeps.md` says what it holds.")
    out: str = Field(description="Folder for results and models, on a disk that all workers see.")
    reuse: str | None = Field(
        None, description="Folder of another sweep: results and models of equal content are copied."
    )
    retry_failed: bool = Field(
        default=False, description="Try cells again that failed before, once their reason is gone."
    )
    context: RunContext = HERE


class ChallengeRequest(FlowRequest):
    """Request to train a model that challenges the one in use: `flows.challenge`."""

    corpus: str = Field(description=CORPUS_HELP)
    held_out: str = Field(
        description="Labelled corpus that judges both models; none of its documents is in the one to learn from."
    )
    out: str = Field(description="Folder for the new model, and for the answers of both.")
    register_as: str = Field(description=REGISTER_HELP)
    alias: str = Field(ALIAS, description=ALIAS_HELP)
    trainer: str = Field(DEFAULT_TRAINER, description=TRAINER_HELP)
    options: Mapping[str, Any] | None = Field(None, description=TRAINER_OPTIONS_HELP)
    settings: RunSettings = Field(
        DEFAULT_RUN, description="Settings by which both models decode the held-out documents: the engine, its options."
    )
    constraints: tuple[str, ...] = Field(
        (), description=f"{CONSTRAINTS_HELP}: those of the nightly run, under which both models answer."
    )
    consistency: bool = Field(default=True, description="Learn label consistency, and use that of either model.")
    least_gain: float = Field(
        0.0,
        description="Fraction of F1 above which the whole 95 % interval of the gain has to lie; -0.002 lets a model "
        "pass that is no worse than by 0.2 points.",
    )
    context: RunContext = HERE


class CodlRequest(FlowRequest):
    """Request to learn a model from few labelled documents and a pool: `flows.codl`."""

    corpus: str = Field(description=CORPUS_HELP)
    pool: str = Field(description=POOL_HELP)
    out: str = Field(description="Folder for the cycles, on a disk that all workers see.")
    constraints: str | None = Field(
        None,
        description="YAML file of constraints, a path or URI, for the answers on the pool (default: none).",
    )
    held_out: str | None = Field(None, description="Labelled corpus on which every cycle is measured.")
    settings: CodlSettings = Field(DEFAULT_CODL, description="Options of the learning, such as gamma and cycles.")
    tune: bool = Field(default=False, description="Choose gamma by cross-validation over the labelled documents.")
    validation: Validation | None = Field(None, description=JUDGING_HELP)
    labelling: RunSettings = Field(
        DEFAULT_RUN,
        description="Settings by which the pool is decoded; with n_best all of its best labellings count.",
    )
    shard_bytes: int | None = Field(None, ge=1, description=SHARD_HELP)
    context: RunContext = HERE
