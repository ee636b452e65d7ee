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
    return changed_since(f"HEAD~{LATELY}")


def changed_since(commit: str) -> frozenset[str]:
    """Files that differ from those of a commit, and new ones, as paths in the project."""
    new = _git("ls-files", "--others", "--exclude-standard")
    return frozenset([*_git("diff", "--name-only", commit).splitlines(), *new.splitlines()])


def tracked() -> list[str]:
    """Files of the project that are there, new ones among them, as paths in it."""
    listed = _git("ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    return [path for path in listed if (ROOT / path).is_file()]


def _git(*arguments: str) -> str:
    """What git prints; nothing where there is no git, no checkout, or no such commit."""
    try:
        return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""
