"""What people are told while they wait."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from concord.flows.cluster import cluster
from concord.flows.cluster.aside import aside
from concord.flows.cluster.pool import Pool
from concord.flows.screen.progress import COMPILING, compiling_told, explained
from concord.workers.compiling.told import LISTENERS, Compiling
from concord.workers.remote.count import COUNT, CountParts


def test_a_long_wait_is_explained_and_a_short_one_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    with explained("quick", after=60.0):
        pass
    with explained("compiling", after=0.01):
        time.sleep(0.2)
    assert capsys.readouterr().err == "compiling\n"


def test_a_slow_start_of_workers_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pool = SimpleNamespace(fill=lambda _: None, add=lambda _: None, close=lambda: None, busy=False)
    monkeypatch.setattr(Pool, "of", lambda *_, **__: pool)
    monkeypatch.setattr(ray, "put", lambda part: part)
    monkeypatch.setattr(ray, "nodes", list)
    monkeypatch.setattr(cluster.Cluster, "_warm_nodes", lambda *_: time.sleep(0.2))
    monkeypatch.setattr(cluster, "explained", partial(explained, after=0.01))
    unused: Any = None
    with aside() as thread:
        assert list(cluster.Cluster(1, thread, unused).run(COUNT, [], CountParts())) == []
    assert capsys.readouterr().err == cluster.STARTING + "\n"


def test_what_is_compiled_is_told_once_it_takes_long_and_then_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    with compiling_told(), compiling_told():
        for seconds in (0.0, 3.9, 4.0, 13.9, 14.0, 15.0):
            for listener in LISTENERS:
                listener(Compiling(f"concord.workers.a.at_{seconds}", int(seconds), seconds))
    assert LISTENERS == []
    assert capsys.readouterr().err.splitlines() == [
        f"{COMPILING}: 4 done in 4 s, now concord.workers.a.at_4.0",
        f"{COMPILING}: 14 done in 14 s, now concord.workers.a.at_14.0",
    ]


COLD = """
import numpy as np
from concord.workers.compiling.told import listening
heard = []
with listening(heard.append):
    from concord.workers.inference.core.chain import best_labels
    from concord.schemas.potentials import Potentials
    best_labels(Potentials(np.zeros((2, 3)), np.zeros((3, 3)), np.zeros(1, np.int64)))
print(len(heard), sorted(one.kernel.split(".")[0] for one in heard)[-1:], sum(one.done for one in heard) >= 0)
"""


def test_kernels_that_are_compiled_are_heard_of_and_those_that_are_loaded_are_not(tmp_path: Path) -> None:
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    cold, warm = (
        subprocess.run([sys.executable, "-c", COLD], env=env, capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    )
    assert int(cold[0]) > 0
    assert cold[1] == "['concord']"
    assert warm[0] == "0"
