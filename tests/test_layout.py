"""Where tests and what they share stand."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


def imported(source: str) -> Iterator[str]:
    """Every module that a text imports, and every name that it takes out of one, with dots."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


def of_tests(source: str) -> set[str]:
    """The test modules among what a text imports."""
    parts = {name: name.split(".") for name in imported(source)}
    return {name for name, (top, *rest) in parts.items() if top == "tests" and rest and _is_test(rest)}


def _is_test(names: list[str]) -> bool:
    return TESTS.joinpath(*names).with_suffix(".py").is_file() and names[-1].startswith("test_")


def modules() -> list[Path]:
    """All of ours that can import from tests; the package in ``foreign`` has its own."""
    own = [path for path in TESTS.rglob("*.py") if (TESTS / "foreign") not in path.parents]
    return own + sorted((TESTS.parent / "benchmarks").glob("*.py"))


def test_no_module_imports_a_test() -> None:
    found = {path.name: of_tests(path.read_text()) for path in modules()}
    assert len(found) > 150
    assert {name: tests for name, tests in found.items() if tests} == {}


def test_beside_the_tests_stands_nothing_else() -> None:
    names = {path.name for path in TESTS.glob("*.py")} - {"__init__.py", "conftest.py"}
    assert {name for name in names if not name.startswith("test_")} == set()


@pytest.mark.parametrize(
    "source",
    [
        "from tests.test_layout import TESTS",
        "from tests import test_layout",
        "import tests.test_layout",
        "def f():\n    from tests.test_layout import TESTS",
    ],
)
def test_an_import_of_a_test_is_seen(source: str) -> None:
    assert of_tests(source) == {"tests.test_layout"}
    assert of_tests(source.replace("test_layout", "support")) == set()
