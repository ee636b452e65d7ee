"""What MLflow and the record of nights are told that a run was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic.fields import FieldInfo

from concord.flows.labelling.label_job import LOOKED_FOR, LabelJob
from concord.schemas.requests import LabelRequest
from concord.schemas.run import RunKey, RunSettings
from concord.schemas.settings import TextSettings
from tests.support.made_runs import consistency

OTHER = {
    "engine": "viterbi",
    "options": {"tolerance": 0.5},
    "on_infeasible": "reject",
    "errors_of": "gibbs",
    "confidence": "margin",
    "tokenizer": "signs",
    "keep_columns": ("source",),
}
"""Values that are not the default, of settings that are neither numbers nor switches nor free text."""


def otherwise(name: str, field: FieldInfo) -> Any:
    """A value of a setting that is not its default."""
    if name in OTHER:
        return OTHER[name]
    if isinstance(field.default, bool):
        return not field.default
    if isinstance(field.default, str):
        return f"{field.default}x"
    return 7 if field.default is None else field.default + 1


def each_change() -> Iterator[RunSettings]:
    """Settings of which each differs from the default in one field."""
    for name, field in RunSettings.model_fields.items():
        if name != "text":
            yield RunSettings.model_validate({name: otherwise(name, field)})
    for name, field in TextSettings.model_fields.items():
        yield RunSettings(text=TextSettings.model_validate({name: otherwise(name, field)}))


def params(settings: RunSettings) -> dict[str, object]:
    request = LabelRequest(corpus="corpus", model="model", out="out", settings=settings)
    opened: Any = SimpleNamespace(version=None)
    key, shards = RunKey(settings=settings, model="m", constraints="c", code="d"), SimpleNamespace()
    return LabelJob(request, 1, opened, consistency(), {}, key, shards, (), None).params()  # type: ignore[arg-type]


CHANGES = list(each_change())


@pytest.mark.parametrize("settings", CHANGES, ids=lambda one: ",".join(map(str, one.model_dump(exclude_defaults=True))))
def test_two_runs_that_are_asked_for_otherwise_look_otherwise(settings: RunSettings) -> None:
    assert settings != RunSettings()
    assert params(settings) != params(RunSettings())


def test_of_settings_that_are_the_default_those_are_told_that_people_look_for() -> None:
    assert len(CHANGES) == len(RunSettings.model_fields) - 1 + len(TextSettings.model_fields)
    own = set(RunSettings.model_fields) & params(RunSettings()).keys()
    assert own == set(LOOKED_FOR)
