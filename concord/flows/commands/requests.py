"""Requests of commands: each field is an option of the command, named, bounded and described here alone.

No heavy import is needed for them.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from concord.schemas.learning_requests import JUDGING_HELP
from concord.schemas.requests import CORPUS_HELP, ENGINE_HELP, MODEL_HELP
from concord.schemas.run import ENGINE
from concord.schemas.run_context import HERE, RunContext
from concord.schemas.settings import Settings, TextSettings, Validation

SEED = "Seed of the random numbers; the same seed gives the same result."
PENALTY = "Formula for the price of a broken row; `concord list penalties` has them."
DOCUMENTS = "Largest number of documents to look at."
"""Texts that several options share."""


class CheckRequest(Settings):
    """Request to check a file of constraints."""

    corpus: str = Field(description=CORPUS_HELP)
    model: str | None = Field(
        None,
        description="Model (a folder or models:/NAME@ALIAS) whose answers are checked too; with --engine viterbi, "
        "without constraints.",
    )
    engine: str = Field(ENGINE, description=ENGINE_HELP)
    documents: int = Field(1000, ge=1, description=DOCUMENTS)
    conflicts: int = Field(
        50, ge=0, description="Number of documents that are searched for constraints that contradict each other."
    )
    seed: int = Field(0, ge=0, description=SEED)
    context: RunContext = HERE


class ExplainRequest(Settings):
    """Request to explain one document under a file of constraints."""

    corpus: str = Field(description=CORPUS_HELP)
    model: str = Field(description=MODEL_HELP)
    doc: str = Field(description="Id of the document to look at.")
    engine: str = Field(ENGINE, description=ENGINE_HELP)
    seed: int = Field(0, ge=0, description=SEED)
    context: RunContext = HERE


class ProposeRequest(Settings):
    """Request to write a prompt for rules."""

    corpus: str = Field(description=CORPUS_HELP)
    model: str = Field(description=MODEL_HELP)
    out: Path = Field(description="File for the prompt.")
    errors: int = Field(40, ge=1, description="Number of wrong sentences that are shown.")
    documents: int = Field(1000, ge=1, description=DOCUMENTS)
    context: RunContext = HERE


class WeighRequest(Settings):
    """Request to weigh a file of constraints; a run of MLflow keeps the weights if its address is given."""

    corpus: str = Field(description=CORPUS_HELP)
    out: Path | None = Field(None, description="New YAML file for the same constraints with these weights.")
    penalty: str = Field("odds", description=PENALTY)
    model: str | None = Field(
        None,
        description="With `--penalty tuned`: the model whose answers are scored. With `learned`: the model whose "
        "settings are reused to train one model per fold.",
    )
    held_out: str | None = Field(
        None,
        description="With `--penalty tuned`: labelled corpus on which the factors are chosen; neither counts nor "
        "model have seen it.",
    )
    validation: Validation | None = Field(None, description=JUDGING_HELP)
    seed: int = Field(0, ge=0, description=SEED)
    context: RunContext = HERE


class MineRequest(Settings):
    """Request to mine a corpus."""

    corpus: str = Field(description=CORPUS_HELP)
    out: Path = Field(description="YAML file for the rules that help a model; with --all, for all that hold.")
    model: str | None = Field(
        None,
        description="Model (a folder or models:/NAME@ALIAS) whose training settings are reused: rules are judged on "
        "models trained with them.",
    )
    all: bool = Field(
        default=False,
        description="Write all rules that hold, not only those that help a model; without --model none is judged.",
    )
    method: str = Field("counting", description="Method by which rules are found; `concord list methods` has them.")
    penalty: str = Field("odds", description=PENALTY)
    validation: Validation | None = Field(None, description=JUDGING_HELP)
    seed: int = Field(0, ge=0, description=SEED)
    context: RunContext = HERE
    text: TextSettings = TextSettings()
