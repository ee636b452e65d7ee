"""MLflow that takes all that it is told, for tests of what stands before and behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

import concord.flows.nights.files
from concord.flows.tracking.tracking import Outcome


def untracked(
    ended: list[Outcome], kept: dict[str, object] | None = None, read: list[dict[str, Any]] | None = None
) -> Callable[[str | None], Any]:
    """What stands in for `Tracking`: how runs ended is added to ``ended``, parameters and texts to ``kept``, and the
    corpora that they read to ``read``."""
    told = {} if kept is None else kept

    def dataset(**given: Any) -> None:
        if read is not None:
            read.append(given)

    @contextmanager
    def run(_name: str, **_: object) -> Iterator[Any]:
        nothing = lambda *_, **__: None  # noqa: E731
        yield SimpleNamespace(
            id="run",
            params=told.update,
            dataset=dataset,
            curve=nothing,
            folder=nothing,
            model=nothing,
            text=lambda text, name: told.update({name: text}),
            file=lambda path: told.update({path.name: path.read_bytes()}),
            artifact_page=lambda name: f"http://mlflow/{name}",
            end=ended.append,
        )

    return lambda _uri: SimpleNamespace(run=run)


def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has no night draw a plot for MLflow: that takes longer than labelling, and `test_night_files` has one drawn."""
    monkeypatch.setattr(concord.flows.nights.files, "_draw_constraints", lambda *_: None)
