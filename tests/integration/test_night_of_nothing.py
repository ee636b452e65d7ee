"""What a scheduled run imports that finds nothing new: as it waits for nothing else, that is its time."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.integration.conftest import World

UNUSED = {"matplotlib", "onnxruntime", "ortools", "ray", "scipy.linalg", "sklearn", "spacy"}
"""Packages that label, learn or draw.

numba comes with the constraints, which are opened to be compared, and pandas with Arrow, which looks for it.
"""


@pytest.mark.usefixtures("trained")
def test_a_night_of_nothing_imports_nothing_that_labels(world: World) -> None:
    words = ["reprocess", "--corpus", "test", "--model", "model", "--out", "nothing", "--engine", "viterbi"]
    script = (
        f"import sys; sys.argv = {['concord', *words]!r}\n"
        "from concord.flows.cli.app import app\n"
        "try: app()\n"
        f"except SystemExit as left: print(left.code, sorted({UNUSED!r} & set(sys.modules)))"
    )
    for _ in range(2):
        typed = [sys.executable, "-c", script]
        run = subprocess.run(typed, cwd=world.folder, env=world.env, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1] == "0 []"
