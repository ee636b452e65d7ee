"""Where tests and what they share stand."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.command_server import IMPORTED

TESTS = Path(__file__).parent
IMPORTS = re.compile(
    r"^\s*(?:from|import) tests(?:\.\w+)*\.(test_\w+)|^\s*from tests(?:\.\w+)* import .*\b(test_\w+)", re.MULTILINE
)
"""Imports of test modules, in programs that tests hold as texts, too."""


def of_tests(source: str) -> set[str]:
    """The test modules that a text imports."""
    return {one or other for one, other in IMPORTS.findall(source)}


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
        "from tests.{} import TESTS",
        "from tests.integration.{} import TESTS",
        "from tests import {}",
        "from tests import support, {}",
        "import tests.{}",
        "import os\ndef f():\n    from tests.{} import TESTS",
        "SCRIPT = '''\nfrom tests.{} import TESTS\n'''",
    ],
)
def test_an_import_of_a_test_is_seen(source: str) -> None:
    assert of_tests(source.format("test_layout")) == {"test_layout"}
    assert of_tests(source.format("support")) == set()


def test_the_server_of_commands_imports_modules_that_are_there() -> None:
    assert [name for name in IMPORTED if find_spec(name) is None] == []
