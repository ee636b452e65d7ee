"""What is installed: one list of what runs, one of what develops."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def pinned(name: str) -> dict[str, str]:
    """Versions by package."""
    return dict(re.findall(r"^([a-z0-9._-]+)==([^ ;]+)", (ROOT / name).read_text(), re.MULTILINE))


def wanted(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=~! ]", one)[0].lower() for one in requirements}


def test_what_runs_is_part_of_what_develops_and_has_no_tool_of_developers() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    runs, develops = pinned("requirements.lock"), pinned("requirements-dev.lock")
    assert runs.items() <= develops.items()
    assert wanted(project["dependencies"]) <= set(runs)
    extras = project["optional-dependencies"]
    assert wanted(extras["dev"]) | wanted(extras["memory"]) <= set(develops)
    brought = {"setuptools", "matplotlib"}  # by Ray and by MLflow
    assert not ((wanted(extras["dev"]) | wanted(extras["memory"])) & set(runs)) - brought


def test_the_image_is_built_from_what_runs() -> None:
    text = (ROOT / "infra" / "Dockerfile").read_text()
    assert "requirements.lock" in text
    assert "requirements-dev.lock" not in text
