"""Runs without workers: when there are none, what a shard that fails does, and a process that was killed at work."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import concord.flows.cluster.cluster
import concord.flows.labelling.ray_on_demand
from concord.flows.labelling.ray_on_demand import IN_PROCESS, RayOnDemand
from concord.flows.runfolder.layout import AT_WORK
from concord.flows.work.in_process import InProcess
from concord.schemas.errors import CorpusError, UsageError
from concord.schemas.run_context import RunContext
from concord.workers.corpus.ingestion import write_corpus
from concord.workers.synthesis.made_up import synthesize
from tests.support.runs_here import label, stay_here


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """Numbers of workers for which Ray was to start; this process does the work."""
    numbers: list[int | None] = []

    @contextmanager
    def cluster(_address: str | None, *, workers: int | None) -> Iterator[InProcess]:
        numbers.append(workers)
        yield InProcess()

    monkeypatch.setattr(concord.flows.cluster.cluster, "cluster", cluster)
    return numbers


@pytest.mark.parametrize(
    ("given", "documents", "variable", "starts_ray"),
    [
        ({}, IN_PROCESS, "", False),
        ({}, IN_PROCESS + 1, "", True),
        ({}, None, "", True),
        ({}, 1, "127.0.0.1:6379", True),
        ({"ray": "local"}, 1, "", True),
        ({"workers": 1}, 1, "", True),
        ({"workers": 0}, IN_PROCESS + 1, "", False),
        ({"workers": 0}, 1, "127.0.0.1:6379", False),
    ],
)
def test_a_small_corpus_needs_no_workers_unless_they_are_named(
    given: dict[str, Any],
    documents: int | None,
    variable: str,
    starts_ray: bool,
    starts: list[int | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", variable)
    with RayOnDemand(RunContext(**given)) as ray:
        ray.started(documents)
    assert bool(starts) == starts_ray


def test_a_process_with_kernels_of_its_own_takes_workers_or_says_what_to_set(
    starts: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CPU_NAME", "host")
    with pytest.raises(UsageError, match="set NUMBA_CPU_NAME=generic before Python starts"):
        InProcess()
    monkeypatch.setattr(concord.flows.labelling.ray_on_demand, "InProcess", None)
    with RayOnDemand(RunContext()) as ray, pytest.raises(UsageError, match="NUMBA_CPU_NAME"):
        ray.started(1)
    assert starts == [None]


@pytest.mark.parametrize("error", [CorpusError("cannot be read"), ValueError("of a user's model")])
def test_a_shard_that_fails_fails_alone(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    def run(shard: SimpleNamespace, parts: int) -> int:
        sys.stdout.write("what a user's model prints")
        if shard.place == "b":
            raise error
        return parts + len(shard.place)

    task: Any = SimpleNamespace(run=run)
    shards: Any = [SimpleNamespace(place=name) for name in ("a", "b", "ccc")]
    with InProcess().pool(task, 1, most=9) as work:
        done = list(work(shards[:2], lambda one: shards[2:] if one.shard.place == "a" else []))
    assert [(one.shard.place, one.result) for one in done] == [("a", 2), ("b", None), ("ccc", 4)]
    assert done[1].failure == f"b: {type(error).__name__}: {error}"
    assert capsys.readouterr().out == "", "it is not the answer of the command"


@pytest.mark.parametrize("was_killed", [False, True])
def test_workers_find_the_document_that_killed_a_run(
    tmp_path: Path, was_killed: bool, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    write_corpus(list(synthesize(2, seed=1, kind="news")), tmp_path / "corpus", source="test")
    stay_here(monkeypatch)
    starts = request.getfixturevalue("starts")
    (tmp_path / "out").mkdir()
    if was_killed:
        (tmp_path / "out" / AT_WORK).touch()
    assert label(tmp_path / "corpus", tmp_path / "out").labelled == 2
    assert starts == ([None] if was_killed else [])
    assert not (tmp_path / "out" / AT_WORK).exists()
