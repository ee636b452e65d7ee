"""The table of changes made on purpose still fits the code that it changes and the tests that it names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_every_change_is_found_once_and_its_tests_are_there() -> None:
    typed = [sys.executable, str(ROOT / "benchmarks" / "mutations.py"), "--check"]
    ended = subprocess.run(typed, capture_output=True, check=False, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, "")
