"""Runs over a corpus in this process, without Ray, MLflow or a model's folder."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import concord.flows.cluster.cluster
import concord.flows.labelling.label_job
import concord.flows.tracking.tracking
from concord.flows.labelling.label_corpus import label_corpus
from concord.flows.tracking.tracking import Outcome
from concord.flows.work.in_process import InProcess
from concord.schemas.requests import LabelRequest
from concord.schemas.run import RunSettings
from concord.schemas.run_report import RunReport
from concord.workers.models.model import Model
from tests.support.made_runs import HashModel, consistency
from tests.support.made_tracking import undrawn, untracked

CONSTRAINTS = consistency()


def stay_here(
    monkeypatch: pytest.MonkeyPatch, model: Model | None = None, logged: dict[str, object] | None = None
) -> list[Outcome]:
    """Has runs stay in this process, with that model whatever they ask for; what MLflow would be told of their ends.

    What it would be told of them before, and the files that it would get, are added to ``logged``.
    """
    told: list[Outcome] = []
    opened = SimpleNamespace(model=model or HashModel(), folder=Path("model"), version=None)
    undrawn(monkeypatch)
    monkeypatch.setattr(concord.flows.tracking.tracking, "Tracking", untracked(told, logged))
    monkeypatch.setattr(concord.flows.labelling.label_job, "open_model", lambda *_: opened)
    monkeypatch.setattr(concord.flows.labelling.label_job, "open_constraints", lambda *_, **__: CONSTRAINTS)
    monkeypatch.setattr(concord.flows.labelling.label_job, "cutting", lambda _opened, text: text)
    monkeypatch.setattr(concord.flows.cluster.cluster, "cluster", lambda *_, **__: nullcontext(InProcess()))
    return told


def label(corpus: Path, out: Path | str, **given: Any) -> RunReport:
    """A run, by the engine viterbi unless other settings are given, a shard a document."""
    usual = {"shard_bytes": 1, "settings": RunSettings(engine="viterbi")}
    request = LabelRequest(corpus=str(corpus), model="made up", out=str(out), **(usual | given))
    report: RunReport = label_corpus(request)
    return report
