"""What `concord.adopt` is asked for. Default, range and description of a run's fields are those of `LabelRequest`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from concord.schemas.requests import FlowRequest, LabelRequest
from concord.schemas.run import RunSettings

OF_MODELS = ("model", "constraints", "consistency", "only")
"""Fields of a run that ask for what answers of another program do not have."""
OF_ENGINES = tuple(f"settings.{name}" for name in RunSettings.model_fields if name != "text")


class AdoptedRun(LabelRequest):
    """A run of answers that are there, which names no model."""

    model: str = ""


class AdoptRequest(FlowRequest):
    """Request to make a run of another program's answers."""

    answers: str = Field(description="File or folder of the program's answers.")
    program: str = Field(min_length=1, description="What you call the program; it names the run's model.")
    version: str | None = Field(None, description="Its version, or the name of its model.")
    prompt: str | None = Field(None, description="File of its prompt, a path or URI, of which a digest counts.")
    form: str = Field("spans", description="Reader of the answers; `concord list readers` has them.")
    names: Mapping[str, str] = Field({}, description="Your names for labels of the program; O leaves one out.")
    options: Mapping[str, Any] = Field({}, description="Options of the reader.")
    run: AdoptedRun


NOT_ADOPTED = tuple(f"run.{name}" for name in (*OF_MODELS, *OF_ENGINES))
"""Fields within a request that are not asked for."""
