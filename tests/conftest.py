"""What all tests share: their environment, seeds, and which of the slow ones run with this commit."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
import typer.main
import typer.testing
from hypothesis import settings

from concord.flows.environment import ANY_PROCESSOR, set_for_good
from tests.support import seeds
from tests.support.commits import ROOT, changed_lately, commit_number

# Before numba is imported: tests share the kernels of the commands that they start.
set_for_good(ANY_PROCESSOR)

# A busy machine must not fail a test, and a run must be repeatable.
settings.register_profile("concord", deadline=None, derandomize=True)
settings.load_profile("concord")

# The tree of commands is made once: that takes longer than most commands of a test.
typer.testing._get_command = cache(typer.main.get_command)  # type: ignore[attr-defined]

collect_ignore = ["foreign"]
"""Tests of a package of its own, which `test_foreign.py` installs and runs."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seeds", help="seeds of tests over random problems, as 7 or 940:960, in place of all others")
    turns = "of the slow tests only every N-th, others with each commit, and all of files that changed lately"
    parser.addoption("--in-turn", type=int, metavar="N", default=1, help=turns)


def pytest_configure(config: pytest.Config) -> None:
    if text := config.getoption("--seeds"):
        seeds.asked_for[:] = seeds.parse_seeds(text)


def pytest_report_header(config: pytest.Config) -> str:
    new = seeds.asked_for or seeds.new_seeds()
    return f"commit {commit_number()}, seeds {new[0]}:{new[-1] + 1}, slow tests one of {config.getoption('--in-turn')}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = set(slow_of_other_commits(items, config.getoption("--in-turn")))
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


def slow_of_other_commits(items: list[pytest.Item], turns: int) -> Iterator[pytest.Item]:
    """The slow tests of files whose turn is another commit's, but for those of files that changed lately.

    By files, not by tests: a test may look at what those above it made. A test says by the marker ``about`` which
    folders it is about, and is a test of these, too.
    """
    slow = [item for item in items if item.get_closest_marker("slow")]
    for number, file in enumerate(sorted({item.path.relative_to(ROOT).as_posix() for item in slow})):
        tests = [item for item in slow if item.path == ROOT / file]
        about = {place for item in tests for marker in item.iter_markers("about") for place in marker.args}
        if (number + commit_number()) % turns and not any(path.startswith((file, *about)) for path in changed_lately()):
            yield from tests
