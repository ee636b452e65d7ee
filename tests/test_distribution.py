"""The name that concord is installed by: one, in metadata, messages and docs; PyPI's ``concord`` is another project."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

import concord
from concord.schemas.distribution import DISTRIBUTION, with_extra

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAME = r"(?<![\w./-])concord(?![\w./-])"
TOLD = re.compile(rf"pip3? install\b[^`\n]*{NAME}|{NAME}\[\w+\]|{NAME}(?:[=~<>!]=|@)")
"""An installer, or a list of what is needed, that is given PyPI's ``concord``."""
LOOKED_UP = re.compile(r"\b(?:version|requires|metadata|distribution|files)\(\s*[\"']concord[\"']")
EXTRA = re.compile(rf"{DISTRIBUTION}\[(\w+)\]|with_extra\([\"'](\w+)[\"']\)")


def texts() -> Iterator[tuple[str, str]]:
    """Name and text of every file that people or programs read."""
    places = [
        *ROOT.glob("*"),
        *(path for top in ("concord", "docs", "infra", "benchmarks") for path in (ROOT / top).rglob("*")),
    ]
    for path in places:
        if path.is_file() and path.suffix in {"", ".md", ".py", ".yaml", ".toml", ".cff", ".ipynb"}:
            yield str(path.relative_to(ROOT)), path.read_text(errors="replace")


def test_the_name_is_that_of_the_project_and_of_what_is_installed() -> None:
    assert PROJECT["name"] == DISTRIBUTION != "concord"
    assert PROJECT["scripts"] == {"concord": "concord.flows.cli.app:app"}
    assert concord.__version__ == version(DISTRIBUTION) == PROJECT["version"]


@pytest.mark.parametrize(
    "line",
    ["pip install concord", "pip install -U 'concord[spacy]'", "needs concord[plot]", "concord==0.1.0", "concord>=1"],
)
def test_the_name_of_a_stranger_is_seen(line: str) -> None:
    assert TOLD.search(line)


def test_nothing_tells_anyone_to_install_or_looks_up_the_stranger() -> None:
    for name, text in texts():
        found = TOLD.search(text) or LOOKED_UP.search(text)
        assert found is None, f"{name}: {found}"


def test_extras_that_messages_and_docs_name_are_there() -> None:
    assert with_extra("plot") == "concord-nlp[plot]"
    named = {first or second for _, text in texts() for first, second in EXTRA.findall(text)}
    assert {"memory", "plot", "spacy"} <= named <= set(PROJECT["optional-dependencies"])
