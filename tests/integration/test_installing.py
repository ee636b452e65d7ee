"""docs/install.md as a newcomer follows it: each command, from a copy of the checkout that has no environment yet."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.integration.conftest import World

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
BASH = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLE = re.MULTILINE | re.DOTALL
SOURCE = ("LICENSE", "README.md", "pyproject.toml", "requirements.lock")


def test_every_command_of_the_page_runs(world: World, tmp_path: Path) -> None:
    for name in SOURCE:
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "concord", tmp_path / "concord", ignore=shutil.ignore_patterns("__pycache__"))
    # What the lock file names is here already: nothing is fetched, and pip says so if it would be.
    env = world.unwatched().env | {"PYTHONPATH": str(libraries(tmp_path / "libraries")), "PIP_NO_INDEX": "1"}
    script = "\n".join(BASH.findall((ROOT / "docs" / "install.md").read_text()))
    assert script.count("pip install") >= 2
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    (shown,) = re.findall(r"^```text\n\$ (.*?)\n(.*?)^```$", (ROOT / "docs" / "index.md").read_text(), EXAMPLE)
    typed, answer = shown
    assert script.endswith(f"{typed}\n"), "the first page of the site shows the last command"
    assert answer.splitlines()[:2] == done.stdout.splitlines()[-4:-2]
    assert re.search(r"^text: \d entities in 14 tokens; optimal, ", done.stdout, re.MULTILINE)
    env = {name: text for name, text in env.items() if name != "PYTHONPATH"}
    listed = subprocess.run(
        [tmp_path / ".venv" / "bin" / "pip", "list"], env=env, capture_output=True, text=True, check=True
    )
    assert re.search(r"^concord-nlp ", listed.stdout, re.MULTILINE)


def libraries(folder: Path) -> Path:
    """A folder with all that is installed here but concord."""
    folder.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "concord" not in path.name:
            (folder / path.name).symlink_to(path)
    return folder
