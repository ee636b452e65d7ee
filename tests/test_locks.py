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
    apart = set.union(*(wanted(extras[name]) for name in ("dev", "memory", "spacy")))
    assert apart <= set(develops)
    assert wanted(extras["image"]) <= set(runs)
    brought = {"setuptools", "deltalake", "matplotlib"}  # by the image and by MLflow
    assert not (apart & set(runs)) - brought


def test_the_image_is_built_from_what_runs() -> None:
    text = (ROOT / "infra" / "Dockerfile").read_text()
    assert "requirements.lock" in text
    assert "requirements-dev.lock" not in text
