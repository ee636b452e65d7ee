"""Which tests a change can touch: in a made-up checkout by hand, in this one by what tests load when they run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commits import ROOT, tracked
from tests.support.touched import ALL_TESTS, Checkout

FILES = {
    "pyproject.toml": '[project.entry-points."concord.engines"]\nours = "concord.rooms.ours:OURS"\n',
    "concord/__init__.py": 'PLACES = {"load": "concord.models"}\nload = import_module(PLACES["load"])\n',
    "concord/models.py": "def load():\n    from concord.rooms import late\n",
    "concord/rooms/__init__.py": "",
    "concord/rooms/late.py": "",
    "concord/rooms/ours.py": "",
    "concord/rooms/lists.py": 'NAMES = ("concord.models",)\n',
    "concord/workers/parts.py": "",
    "benchmarks/bench_a.py": "import common\n",
    "benchmarks/common.py": "",
    "docs/page.md": "",
    "tests/conftest.py": "",
    "tests/support/shared.py": "import concord.rooms.lists\n",
    "tests/test_by_import.py": "from tests.support import shared\n",
    "tests/test_in_a_function.py": "import concord\n",
    "tests/test_by_script.py": 'SCRIPT = "bench_a.py"\n',
    "tests/test_by_entry_point.py": "from concord.workers.parts import x\n",
    "tests/test_by_name.py": 'TEXT = ROOT / "docs" / "page.md"\n',
    "tests/test_by_pattern.py": 'TEXTS = (ROOT / "concord").rglob("*.py")\n',
    "tests/test_by_test.py": 'OTHERS = ("tests/test_by_script.py",)\n',
}
"""A checkout."""

TOUCHED = {
    "concord/models.py": {"in_a_function", "by_pattern"},
    "concord/rooms/late.py": {"in_a_function", "by_pattern"},
    "concord/rooms/lists.py": {"by_import", "by_pattern"},
    "concord/rooms/__init__.py": {"by_import", "in_a_function", "by_entry_point", "by_pattern"},
    "concord/rooms/ours.py": {"by_entry_point", "by_pattern"},
    "concord/rooms/gone.py": {"by_pattern"},
    "benchmarks/common.py": {"by_script", "by_test", "by_pattern"},
    "docs/page.md": {"by_name"},
    "tests/support/shared.py": {"by_import", "by_pattern"},
    "tests/test_by_script.py": {"by_script", "by_test", "by_pattern"},
    "README.md": set[str](),
}
"""Tests that a change of each file can touch."""

RECORDED = """
import sys
import pytest
assert pytest.main(["-q", "-p", "no:cacheprovider", sys.argv[1]]) == 0
print(*[m.__file__ for n, m in sys.modules.items() if n.startswith(("concord.", "tests.")) and m.__file__], sep="\\n")
"""


@pytest.fixture
def made(tmp_path: Path) -> Checkout:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return Checkout(tmp_path, FILES)


@pytest.mark.parametrize("path", TOUCHED)
def test_a_change_touches_what_leads_to_it(path: str, made: Checkout) -> None:
    assert set(made.touched([path])) == {f"tests/test_{name}.py" for name in TOUCHED[path]}


def test_what_all_tests_rest_on_touches_all(made: Checkout) -> None:
    assert made.touched([ALL_TESTS]) == made.tests()


@pytest.mark.slow
@pytest.mark.parametrize("test", ["tests/test_chain.py", "tests/test_testing.py", "tests/test_plain_tables.py"])
def test_what_a_test_loads_it_leads_to(test: str) -> None:
    """Modules that are loaded when its tests have run; `concord/__init__.py` imports what it is asked for."""
    command = [sys.executable, "-c", RECORDED, test]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=200)
    files = [line for line in ended.stdout.splitlines() if line.startswith(f"{ROOT}/")]
    loaded = {Path(file).relative_to(ROOT).as_posix() for file in files}
    assert test in loaded, ended.stdout + ended.stderr
    checkout = Checkout(ROOT, tracked())
    assert loaded - {"concord/__init__.py"} <= checkout.behind(test) | checkout.behind(ALL_TESTS)
