"""Each tutorial of the docs from its first command to its last: what it prints is what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.integration.conftest import World

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"`([\w./-]+)`:\s*$")
"""How a text ends that says where the block below it stands."""

OTHERWISE = re.compile(r", [\d,]+ tokens a second each|MLflow run \w+")
"""What no two machines print alike."""
NUMBER = re.compile(r"[+-]?\d[\d.,]*(e-?\d+)?")


class Block(NamedTuple):
    """A fenced block: its language, its text, and the file that it stands in, where the page names one."""

    language: str
    text: str
    file: str | None


def blocks(page: Path) -> Iterator[Block]:
    text, end = page.read_text(), 0
    for found in BLOCK.finditer(text):
        file = FILE.search(text[end : found.start()])
        yield Block(found[1], found[2], file and file[1])
        end = found.end()


def words(printed: str) -> list[str]:
    """What was printed, but for figures: other processors add up in another order, and train other last digits."""
    return NUMBER.sub("#", OTHERWISE.sub("", printed)).split()


def test_every_page_shows_what_it_does() -> None:
    assert len(PAGES) == 6
    for page in PAGES:
        kinds = [block.language for block in blocks(page) if block.file is None]
        assert kinds.count("text") >= 2, page
        assert set(kinds) <= {"bash", "python", "text"}, page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_prints_what_it_shows(page: Path, world: World, tmp_path: Path) -> None:
    env = world.quick().env | {
        "COLUMNS": "80",
        "CONCORD_HOME": str(tmp_path / "home"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    served = replace(world, env=env).served().env
    printed = ""
    for block in blocks(page):
        if block.file is not None:
            (tmp_path / block.file).write_text(block.text)
        elif block.language == "text":
            assert words(printed.replace(f"{tmp_path}/", "")) == words(block.text)
        else:
            command = ["bash", "-euo", "pipefail", "-c"] if block.language == "bash" else [sys.executable, "-c"]
            # The first commands of each page are processes of their own, as a user's are.
            there = served if printed else env
            done = subprocess.run([*command, block.text], cwd=tmp_path, env=there, capture_output=True, text=True)
            assert done.returncode == 0, f"{block.text}\n{done.stdout}\n{done.stderr}"
            printed = done.stdout
