"""Which code is running: a digest that output keys hold and remote workers are compared by."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("schemas", "workers")
"""What decides the output; flows only move it about."""

LIBRARIES = ("numba", "numpy", "ortools", "pyarrow", "python-crfsuite")
"""Other versions may score, solve or write differently."""


@cache
def code_digest() -> str:
    """Hex digest of the Python files that decide a run's output, and of the libraries they compute with."""
    root = Path(__file__).resolve().parent.parent
    state = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            state.update(f"{path.relative_to(root).as_posix()}\0".encode())
            state.update(path.read_bytes())
    for library in LIBRARIES:
        state.update(f"{library}={version(library)}\0".encode())
    return state.hexdigest()
