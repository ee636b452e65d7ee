"""What people are told while they wait."""

from __future__ import annotations

import time
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from flows.cluster import cluster
from flows.cluster.pool import Pool
from flows.progress import explained
from workers.remote.count import COUNT, CountParts


def test_a_long_wait_is_explained_and_a_short_one_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    with explained("quick", after=60.0):
        pass
    with explained("compiling", after=0.01):
        time.sleep(0.2)
    assert capsys.readouterr().err == "compiling\n"


def test_a_cold_machine_is_told_that_it_compiles(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pool = SimpleNamespace(fill=lambda _: None, add=lambda _: None, close=lambda: None, busy=False)
    monkeypatch.setattr(Pool, "of", lambda *_, **__: pool)
    monkeypatch.setattr(ray, "put", lambda part: part)
    monkeypatch.setattr(ray, "nodes", list)
    monkeypatch.setattr(cluster.Cluster, "_warm_nodes", lambda *_: time.sleep(0.2))
    monkeypatch.setattr(cluster, "explained", partial(explained, after=0.01))
    unused: Any = None
    assert list(cluster.Cluster(1, unused, unused).run(COUNT, [], CountParts())) == []
    assert capsys.readouterr().err == cluster.STARTING + "\n"
