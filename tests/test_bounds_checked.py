"""Kernels as plain Python, where numpy checks every index, on problems that reach most of them.

Compiled code reads beyond an array without a word: a wrong bound, or the end of the process on another day. To compile
all kernels anew with ``NUMBA_BOUNDSCHECK=1`` finds the same and takes minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

SUBSET = ("tests/test_key_tables.py",)

BEYOND = """
import numpy as np
from concord.workers.compiling.kernel import kernel

@kernel
def read(array, i):
    return array[i]

try:
    read(np.zeros(3), 5)
except IndexError:
    print("seen")
"""

NARROW = """
from concord.testing.engines import PROBLEMS, answers_keep_to_brute_force, problem_of
from concord.testing.problems import NARROW_SETS
from concord.workers.inference.nbest.engine import n_best
from concord.workers.inference.registry import SOLVERS

seeds = [seed for seed in range(PROBLEMS) if problem_of(seed).labels in NARROW_SETS]
for solver in SOLVERS.values():
    answers_keep_to_brute_force(solver, seeds)
for problem in map(problem_of, seeds):
    n_best(problem, problem.potentials.unary.argmax(axis=1).astype("int32"), 5)
print(len(seeds))
"""
"""Every engine on label sets without outside, of one type, and of one label."""


def checked(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        check=False,
        text=True,
        timeout=800,
    )


def test_a_read_beyond_an_array_is_seen(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{BEYOND}")
    ended = checked(str(script))
    assert ended.stdout == "seen\n", ended.stderr


@pytest.mark.slow
@pytest.mark.about("concord/workers/inference/")
@pytest.mark.timeout(900)
def test_engines_read_within_their_arrays() -> None:
    options = ("-p", "no:cacheprovider", "-o", "addopts=", "-q", "-W", "ignore::RuntimeWarning")
    ended = checked("-m", "pytest", *options, *SUBSET)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.slow
@pytest.mark.about("concord/workers/inference/", "concord/testing/problems.py")
@pytest.mark.timeout(900)
def test_engines_read_within_their_arrays_whatever_the_label_set() -> None:
    ended = checked("-W", "ignore::RuntimeWarning", "-c", NARROW)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) > 20
