"""The name that concord is installed by: one, in metadata, messages and docs; PyPI's ``concord`` is another project."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

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


PYTHONS = [found.rpartition(" ")[2] for found in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", found)]
"""Versions of Python that concord runs on."""


def test_the_pythons_that_work_are_the_same_everywhere() -> None:
    """In what installers, the Makefile and pages say, and in what CI runs."""
    allowed = SpecifierSet(PROJECT["requires-python"])
    assert [f"3.{minor}" for minor in range(30) if f"3.{minor}" in allowed] == PYTHONS
    named = f"{', '.join(PYTHONS[:-1])} {{}} {PYTHONS[-1]}"
    assert f"concord runs on Python {named.format('and')}, and this is" in (ROOT / "Makefile").read_text()
    for page in ("README.md", "docs/install.md"):
        assert f"Python {named.format('or')}" in " ".join((ROOT / page).read_text().split()), page
    (matrix,) = re.findall(r"python: (\[.*\])", (ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert json.loads(matrix) == PYTHONS


@pytest.mark.parametrize("command", ["demo", "test"])
@pytest.mark.parametrize("minor", [10, 14, 15])
def test_another_python_is_refused_before_anything_is_installed(command: str, minor: int, tmp_path: Path) -> None:
    other = tmp_path / "python3"
    script = f"import sys; sys.version_info = (3, {minor}, 0, 'final', 0); exec(sys.argv.pop(1))"
    other.write_text(
        "#!/bin/sh\n"
        f'case "$1" in --version) echo "Python 3.{minor}.0";; -c) exec {sys.executable} -c "{script}" "$2";; '
        '*) touch "$0.used";; esac\n'
    )
    other.chmod(0o755)
    asked = ["make", "--no-print-directory", command, f"PYTHON={other}", f"VENV={tmp_path / 'venv'}"]
    done = subprocess.run(
        asked, cwd=ROOT, env=os.environ | {"MAKEFLAGS": ""}, capture_output=True, text=True, check=False
    )
    said = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert said[0] == (
        f"concord runs on Python 3.11, 3.12 and 3.13, and this is Python 3.{minor}.0; name one with: "
        "make PYTHON=/path/to/python3 ..."
    )
    assert all(re.match(r"make(\[\d+\])?: \*\*\* ", line) for line in said[1:])
    assert [path.name for path in tmp_path.iterdir()] == ["python3"]


def test_all_that_is_needed_has_a_lower_bound() -> None:
    """`make lowest` tries them."""
    texts = [
        *PROJECT["dependencies"],
        *(text for name in ("image", "memory", "plot", "spacy") for text in PROJECT["optional-dependencies"][name]),
    ]
    for requirement in map(Requirement, texts):
        assert any(part.operator in {">=", "=="} for part in requirement.specifier), requirement


def test_extras_that_messages_and_docs_name_are_there() -> None:
    assert with_extra("plot") == "concord-nlp[plot]"
    named = {first or second for _, text in texts() for first, second in EXTRA.findall(text)}
    assert {"memory", "plot", "spacy"} <= named <= set(PROJECT["optional-dependencies"])
