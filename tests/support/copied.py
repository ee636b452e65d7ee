"""Copies of the project's code, which tests edit and run."""

from __future__ import annotations

import shutil
from pathlib import Path

from concord.workers.compiling.code import ROOT

PACKAGES = ("concord", "schemas", "workers")
"""The public package, whose links lead to the folders beside it, and what labels."""


def copied(to: Path, *more: str) -> Path:
    """Copies the folders `PACKAGES` and ``more`` into ``to``, without what was compiled, and gives it back."""
    for name in (*PACKAGES, *more):
        shutil.copytree(ROOT / name, to / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    return to
