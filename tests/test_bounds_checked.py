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
