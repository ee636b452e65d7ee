"""The referees themselves, on a fixed list of random problems."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.oracle import enumerate_best
from tests.referees import network
from tests.referees.judge import TOLERANCE
from tests.referees.milp import Highs
from tests.referees.problems import problem_of_kind, random_kind

ROOT = Path(__file__).resolve().parent.parent

SCRIPT = """
import numpy as np
import ortools.sat.python.cp_model
from tests.referees.milp import Highs
from tests.referees.problems import Kind, problem_of_kind

with Highs() as highs:
    print(highs.referee(problem_of_kind(np.random.default_rng(0), Kind("2-7", "both", "hard"))).finished)
"""


def test_referees_find_what_enumeration_finds() -> None:
    """An encoding that is wrong would find too much or too little; labellings are scored anew."""
    judged = 0
    with Highs() as highs:
        for seed in range(60):
            rng = np.random.default_rng(seed)
            problem = problem_of_kind(rng, random_kind(rng, ("1", "2-7")))
            if len(problem.labels) ** len(problem) > 5_000:
                continue
            best = enumerate_best(problem)[1]
            verdicts = [highs.referee(problem)]
            if network.suits(problem):
                verdicts.append(network.referee(problem))
            for verdict in verdicts:
                found = -np.inf if verdict.labels is None else problem.score(verdict.labels).objective
                assert verdict.finished, seed
                assert found == pytest.approx(best, abs=TOLERANCE), seed
                judged += 1
    assert judged > 60


def test_highs_answers_a_script_that_has_loaded_or_tools(tmp_path: Path) -> None:
    """Both bring a library named libhighs, of which a process loads one; the script itself is imported nowhere."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    ended = subprocess.run(
        [sys.executable, script],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    assert ended.stdout == "True\n", ended.stderr
