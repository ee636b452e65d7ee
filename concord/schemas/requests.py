"""What a flow is asked for: one request a flow, each of whose fields is a parameter of the flow and an option of its
command.

Default, range and description of a field stand here alone: the command line shows them, and so does Prefect's form.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Self, TypeVar

from pydantic import BaseModel, Field, field_validator
from pydantic.fields import FieldInfo

from concord.schemas.codl import CodlSettings
from concord.schemas.run import ALIAS, DEFAULT_RUN, RunSettings
from concord.schemas.run_context import HERE, RunContext
from concord.schemas.settings import Settings, Validation

CORPUS_HELP = "Parquet corpus: a file, a folder or a URI such as s3://bucket/corpus."
MODEL_HELP = "Model: a folder, models:/NAME@ALIAS in MLflow's registry, or a URI such as s3://bucket/model."
RUN_HELP = "Folder or URI of a finished run of `concord reprocess`."
TRAINER_HELP = "Trainer that learns the model; `concord list trainers` has them."
TRAINER_OPTIONS_HELP = "Options of the trainer, by name; `concord list trainers` has them."
POOL_HELP = "Second corpus to learn from; its labels, if it has any, are not read."
ENCODER_HELP = (
    "Folder of a transformer in ONNX (model.onnx, tokenizer.json), or a name of `concord list resources`, for what it "
    "knows of words from other texts; it is not trained."
)
REGISTER_HELP = "Name under which MLflow's registry keeps the model."
ALIAS_HELP = "Alias of the model in use, in MLflow's registry, which moves to the new version."
ENGINE_HELP, N_BEST_HELP = (str(RunSettings.model_fields[name].description) for name in ("engine", "n_best"))
CONSTRAINTS_HELP = "YAML files of constraints, each a path or URI"
JUDGING_HELP = (
    "Held-out documents. later: the last ones of the corpus, in the order of files and rows (the default of `train`). "
    "random: a sample by id (the default elsewhere)."
)
SHARD_HELP = (
    "Approximate size of a shard, in bytes of text; smaller ones spread a few slow documents over more workers "
    "(default: 256 KiB, and up to 4096 KiB for corpora of more than 8 GiB). Another size does all shards anew."
)
"""Texts that several options share."""

EMPTY_VALUE = "is empty; give a value, or leave it out"
"""What is wrong with an empty text."""

DEFAULT_CODL = CodlSettings()

DEFAULT_TRAINER = "sgd"
"""Trainer where none is named."""

Job = TypeVar("Job", bound=BaseModel)

CONTEXT = "context"
"""Field of requests whose own fields are parameters of the flow."""


class FlowRequest(Settings):
    """Base of requests. The fields of ``context``, which are Ray's and MLflow's, are parameters of a flow, too."""

    @field_validator("*", mode="before")
    @classmethod
    def _has_text(cls, given: Any) -> Any:
        """An empty path would be the folder in which the flow runs."""
        if given == "" or (isinstance(given, list | tuple) and "" in given):
            raise ValueError(EMPTY_VALUE)
        return given

    @classmethod
    def fields(cls) -> dict[str, FieldInfo]:
        """The parameters of the flow, by name."""
        inner = RunContext.model_fields if CONTEXT in cls.model_fields else {}
        return {name: field for name, field in cls.model_fields.items() if name != CONTEXT} | inner

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Self:
        """The request that a call of the flow makes. Raises `pydantic.ValidationError`."""
        inner = {name: parameters[name] for name in RunContext.model_fields if name in parameters}
        outer = {name: value for name, value in parameters.items() if name not in inner}
        return cls.model_validate(outer | {CONTEXT: inner} if CONTEXT in cls.model_fields else dict(parameters))

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of a call of the flow, by name."""
        values = dict(self)
        return values | dict(values.pop(CONTEXT, ()))

    def job(self, kind: type[Job], **parts: Any) -> Job:
        """The request with ``parts`` in place of its values and beside them, which are all valid already."""
        return kind.model_construct(**dict(self) | parts)

    @classmethod
    def documented(cls, text: str) -> str:
        """A flow's docstring with a section of its parameters, in the form that Prefect reads."""
        lines = [f"    {name}: {field.description}" for name, field in cls.fields().items()]
        return "\n".join([text, "", "Args:", *lines]) if lines else text


class TableForm(StrEnum):
    """Forms of a table that a run keeps beside its predictions."""

    DELTA = "delta"


GONE_HELP = (
    "Publish although more than a tenth of the documents that readers have would be left without an answer, as they "
    "are gone from the corpus or rejects, or without entities that they had (otherwise this fails, with exit code 6)."
)


class LabelRequest(FlowRequest):
    """Request to label a corpus: `flows.reprocess`."""

    corpus: str = Field(description=CORPUS_HELP)
    model: str = Field(description=MODEL_HELP)
    out: str = Field(
        description="Folder for predictions, on a disk that all workers see, or a URI such as s3://bucket/out."
    )
    settings: RunSettings = Field(
        DEFAULT_RUN, description="Settings by which each document is decoded: the engine, its options, limits, seed."
    )
    constraints: tuple[str, ...] = Field(
        (), description=f"{CONSTRAINTS_HELP}: what the answers should keep beside the model's label consistency."
    )
    consistency: bool = Field(default=True, description="Use the label consistency that was trained with the model.")
    only: tuple[str, ...] | None = Field(
        None,
        description="Ids of the documents to label alone, such as rejects of an earlier run (default: all). Such a run "
        "needs an output of its own.",
    )
    corrections: str | None = Field(
        None,
        description="File of corrections, JSON lines or Parquet, a path or URI: spans that are certainly an entity of "
        "a type, or certainly none. The answers keep them, and all else is made consistent with them.",
    )
    shard_bytes: int | None = Field(None, ge=1, description=SHARD_HELP)
    table: TableForm | None = Field(
        None,
        description="Keep the answers as a table that other programs read and whose earlier versions stay: delta is a "
        "Delta table in the folder table of the output, a version for each run that changed an answer; it needs "
        "concord-nlp[delta] (default: none, or that which is there).",
    )
    fail_on_drift: bool = Field(
        default=False,
        description="Fail, with exit code 6, if the run drifted from the last one in the folder: for a schedule whose "
        "next step should not read such answers.",
    )
    allow_gone: bool = Field(
        default=False,
        description=GONE_HELP,
    )
    allow_again: bool = Field(
        default=False,
        description="Publish although a rollback took the same answers back: nothing that made that run differ from "
        "the one before it has changed since (otherwise the run fails, with exit code 6, before it labels).",
    )
    report: bool = Field(
        default=False,
        description="Log the page of `concord report` to the MLflow run, as report.html; with gold if the corpus "
        "has it.",
    )
    context: RunContext = HERE

    @property
    def files_read(self) -> tuple[str, ...]:
        """Files that are read beside corpus and model."""
        return (*self.constraints, *(() if self.corrections is None else (self.corrections,)))


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


class MonthRequest(FlowRequest):
    """Request for the page of a month: `flows.monthly`."""

    out: str = Field(description=RUN_HELP)
    into: str = Field(description="Folder for the page.")
    month: str | None = Field(None, description="Month, YYYY-MM (default: the last one that is over).")


class PapersRequest(FlowRequest):
    """Request to measure published tables again: `flows.papers`."""

    paper: str = Field(description="Paper: canisius, chang, fersini, finkel, stokman, head-to-head, or all.")
    out: str = Field(description="Folder for corpora, sweeps and the page, on a disk that all workers see.")
    data: str | None = Field(
        None, description="Folder of the real corpora; the page names the tables whose data are missing."
    )
    table: str | None = Field(None, description="Number of one table (default: all).")
    test_parts: str | None = Field(
        None, description="Folder of official test parts, such as eng.testb, to measure in place of development parts."
    )
    quick: bool = Field(
        default=False,
        description="Use small made-up corpora instead of the real ones; takes about two minutes.",
    )
    context: RunContext = HERE
