"""Copies of the project's code, which tests edit and run."""

from __future__ import annotations

import shutil
from pathlib import Path

from concord.schemas.distribution import PACKAGE
from concord.workers.compiling.code import ROOT


def copied(to: Path, *more: str) -> Path:
    """Copies the package and the folders ``more`` of the checkout into ``to``, without what was compiled.

    Gives the package's folder there.
    """
    for name in (PACKAGE, *more):
        shutil.copytree(ROOT.parent / name, to / name, ignore=shutil.ignore_patterns("__pycache__"))
    return to / PACKAGE
