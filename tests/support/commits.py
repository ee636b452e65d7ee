"""What git knows of the checkout that is tested: the number of its commit, and files that changed lately."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

LATELY = 10
"""Commits."""


@cache
def commit_number() -> int:
    """Number of commits up to this one; 0 where the source is no checkout."""
    return int(_git("rev-list", "--count", "HEAD") or 0)


@cache
def changed_lately() -> frozenset[str]:
    """Files that differ from those of `LATELY` commits ago, as paths in the project."""
    return frozenset(_git("diff", "--name-only", f"HEAD~{LATELY}").splitlines())


def _git(*arguments: str) -> str:
    """What git prints; nothing where there is no git, no checkout, or no such commit."""
    try:
        return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""
