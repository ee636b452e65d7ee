"""Seeds of tests over random problems: few, with new ones at each commit, and many in the slow tests."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.commits import commit_number

STAY = 5
"""Seeds from 0 on that every run tries."""

NEW = 2
"""Seeds that no earlier commit has tried."""

MANY = 60
"""Seeds from 0 on that the slow tests try."""

Test = Callable[..., None]

FEW, ALL = "few", "many"
"""Names of the two cases of a test."""

asked_for: list[int] = []
"""Seeds of ``--seeds``, in place of all others."""


def parse_seeds(text: str) -> list[int]:
    """The seeds of ``3`` or ``940:960``. Raises `ValueError` for another text."""
    first, colon, end = text.partition(":")
    return list(range(int(first), int(end))) if colon else [int(first)]


def new_seeds() -> list[int]:
    """The seeds that come with this commit."""
    first = 1000 + NEW * commit_number()
    return list(range(first, first + NEW))


def over_seeds(*, stay: int = STAY, many: int = MANY) -> Callable[[Test], Test]:
    """Runs a test (``seed``) for a few seeds, and once more, among the slow tests, for ``many``.

    ``stay`` is the number of those that every run tries; less where one takes a second or more.
    The first seed that fails ends the test, and stands beside the error.
    """

    def decorated(test: Test) -> Test:
        @pytest.mark.parametrize("how_many", [FEW, pytest.param(ALL, marks=pytest.mark.slow)])
        @functools.wraps(test)
        def run(how_many: str, **fixtures: Any) -> None:
            for seed in asked_for or (range(many) if how_many == ALL else [*range(stay), *new_seeds()]):
                try:
                    test(seed=seed, **fixtures)
                except Exception as error:
                    error.add_note(f"with seed {seed}; the same again: pytest --seeds {seed}")
                    raise

        signature = inspect.signature(test)
        taken = [p.replace(name="how_many") if name == "seed" else p for name, p in signature.parameters.items()]
        vars(run)["__signature__"] = signature.replace(parameters=taken)
        made: Test = run
        return made

    return decorated


def blocks(count: int) -> list[Any]:
    """Numbers of the parts of a test over many seeds: one, another with each commit, and the rest in the slow tests."""
    now = commit_number() % count
    return [block if block == now else pytest.param(block, marks=pytest.mark.slow) for block in range(count)]
