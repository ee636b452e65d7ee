"""The package of parts in `tests/foreign`, installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "foreign"


def installed(source: Path, into: Path) -> dict[str, str]:
    """The environment in which the package is on the path."""
    copy = shutil.copytree(source, into / "source", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, "--target", into / "site", copy],
        check=True,
        capture_output=True,
    )
    path = [into / "site", Path(__file__).parents[2]]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
