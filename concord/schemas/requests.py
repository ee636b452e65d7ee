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

from concord.schemas.run import DEFAULT_RUN, RunSettings
from concord.schemas.run_context import HERE, RunContext
from concord.schemas.settings import Settings

CORPUS_HELP = "Parquet corpus: a file, a folder or a URI such as s3://bucket/corpus."
MODEL_HELP = "Model: a folder, models:/NAME@ALIAS in MLflow's registry, or a URI such as s3://bucket/model."
RUN_HELP = "Folder or URI of a finished run of `concord reprocess`."
ENGINE_HELP, N_BEST_HELP = (str(RunSettings.model_fields[name].description) for name in ("engine", "n_best"))
CONSTRAINTS_HELP = "YAML files of constraints, each a path or URI"
SHARD_HELP = (
    "Approximate size of a shard, in bytes of text; smaller ones spread a few slow documents over more workers "
    "(default: 256 KiB, and up to 4096 KiB for corpora of more than 8 GiB). Another size does all shards anew."
)
"""Texts that several options share."""

EMPTY_VALUE = "is empty; give a value, or leave it out"
"""What is wrong with an empty text."""

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
