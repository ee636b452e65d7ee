"""What programs print to be typed next: each line is typed as it stands, after the command that printed it."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from concord.flows.cli import next_steps
from concord.workers.synthesis.made_up import synthesize
from tests.integration.conftest import World
from tests.support.made_files import conll

pytestmark = pytest.mark.slow


def typed(world: World, line: str, own: Mapping[str, str] | None = None) -> str:
    """What a printed line prints when it is typed in the folder, with names of one's own where it has capitals."""
    words, given = [(own or {}).get(word, word) for word in shlex.split(line)], {}
    while "=" in words[0]:
        name, _, given[name] = words.pop(0).partition("=")
    assert Path(words[0]).name == "concord", line
    there = world.quick().served()
    done = subprocess.run(
        there.typed(*words[1:]),
        cwd=world.folder,
        env=there.env | given,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"$ {line}\n{done.stdout}{done.stderr}"
    return done.stdout


def proposed(world: World, *words: str) -> list[str]:
    """The lines that a command prints after ``next:``, as they stand."""
    process = world.quick().served().start(*words)
    _, said = process.communicate(timeout=600)
    assert process.returncode == 0, said
    before, _, after = said.partition("next:\n")
    assert after, before
    return after.splitlines()


def documents(run: Path) -> int:
    return int(pq.read_table(run / "predictions").num_rows)


VECTORS = "\n".join(f"{word} {i % 3} {i % 5} {i % 7}" for i, word in enumerate(("the", "a", "of", "in", "Ada", "met")))


def test_clusters_are_looked_at_as_is_proposed(world: World) -> None:
    (world.folder / "vectors.txt").write_text(VECTORS)
    (line,) = proposed(
        world, "clusters", "import", "vectors.txt", "--set", "clusters=2", "--out", "their words.parquet"
    )
    typed(world, line, {"CORPUS": "train", "MODEL": "of-words"})
    label = ("reprocess", "--corpus", "test", "--model", "of-words", "--out", "by-words", "--json")
    answer = world.quick().served().run(*label)
    assert answer["documents"] == 48


@pytest.fixture(scope="module")
def shown(world: World) -> tuple[World, list[str]]:
    """A user who has run `make demo` in a folder, and what that printed."""
    folder = world.folder / "shown"
    folder.mkdir()
    env = {name: value for name, value in world.env.items() if name != "CONCORD_HOME"}
    user = replace(world, folder=folder, env=env)
    demo = [sys.executable, "-m", "concord.flows.cli.demo"]
    done = subprocess.run(demo, cwd=folder, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return user, done.stdout.splitlines()


def test_what_the_demo_shows_can_be_typed(shown: tuple[World, list[str]]) -> None:
    """The commands that it shows as its steps, with the settings that stand before them, do the same again."""
    user, printed = shown
    lines = [line.removeprefix("$ ") for line in printed if line.startswith("$ ")]
    assert len(lines) == 7
    for line in lines:
        typed(user, line)
    assert documents(user.folder / "demo" / "out-gibbs") == 150


def test_ones_own_corpus_goes_as_the_demo_says(shown: tuple[World, list[str]]) -> None:
    user, printed = shown
    _, *lines = printed[printed.index("Your own corpus:") :]
    lines = [line.strip().partition(", for ")[0] for line in lines]
    steps = [line for line in lines if "concord " in line]
    assert len(steps) == len(next_steps.after_demo()) + 1
    made = list(synthesize(52, seed=5, kind="news"))
    (user.folder / "my gold").write_text(conll(made[:40]))
    (user.folder / "my texts").write_text(conll(made[40:]))
    for line in steps:
        typed(user, line, {"LABELLED": "my gold", "UNLABELLED": "my texts"})
    assert documents(user.folder / "out") == 12
