"""What commands and flows import, and what that leaves behind in a process that is somebody else's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from concord.flows.environment import applied, ray_address

ROOT = Path(__file__).parents[1]
HEAVY = {"mlflow", "numba", "ortools", "prefect", "pyarrow", "ray", "scipy", "sklearn", "spacy", "sqlalchemy"}

OF_ALL = """
import importlib, importlib.util, os, pkgutil
import ray, sklearn  # which set a variable of their own each
before = dict(os.environ)
import concord
hosts = {"concord.spacy": "spacy", "concord.presidio": "presidio_analyzer", "concord.labelstudio": "label_studio_ml"}
for found in pkgutil.walk_packages(concord.__path__, "concord."):
    host = hosts.get(found.name)
    if host is None or importlib.util.find_spec(host):
        importlib.import_module(found.name)
now = dict(os.environ)
print({name: (before.get(name), now.get(name)) for name in {*before, *now} if before.get(name) != now.get(name)})
"""


def said(script: str, *, folder: Path | None = None, **env: str) -> str:
    """What a fresh Python prints, without settings of Ray's, Prefect's and MLflow's but for those given."""
    clean = {name: text for name, text in os.environ.items() if not name.startswith(("RAY_", "PREFECT_", "MLFLOW_"))}
    clean.pop("DO_NOT_TRACK", None)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=clean | {"PYTHONPATH": str(ROOT)} | env,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.timeout(900)
def test_importing_every_module_changes_no_environment_variable() -> None:
    assert said(OF_ALL) == "{}"


def test_settings_end_with_the_last_block_and_never_take_the_place_of_the_users(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CONCORD_TEST_A", raising=False)
    monkeypatch.setenv("CONCORD_TEST_B", "the user's")
    ours = {"CONCORD_TEST_A": "ours", "CONCORD_TEST_B": "ours"}
    first, second = applied(ours), applied(ours)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert (os.environ["CONCORD_TEST_A"], os.environ["CONCORD_TEST_B"]) == ("ours", "the user's")
    second.__exit__(None, None, None)
    assert "CONCORD_TEST_A" not in os.environ
    assert os.environ["CONCORD_TEST_B"] == "the user's"


@pytest.mark.parametrize(
    "script",
    [
        "import concord.flows.reprocess, concord.flows.train, concord.flows.codl",
        "from concord.flows.reprocess import reprocess\ntry: reprocess('no', 'model', 'out')\nexcept ValueError: pass",
        "from concord.flows.train import train\ntry: train('nope', 'out')\nexcept ValueError: pass",
    ],
)
def test_flows_are_imported_and_told_a_wrong_path_without_anything_heavy(script: str, tmp_path: Path) -> None:
    found = said(f"{script}\nimport sys; print({HEAVY!r} & set(sys.modules))", folder=tmp_path, HOME=str(tmp_path))
    assert found == "set()"


COMMANDS = {
    "train": ("train", "--corpus", "nope", "--out", "m"),
    "reprocess": ("reprocess", "--corpus", "nope", "--model", "m", "--out", "o"),
    "a model": ("reprocess", "--corpus", ".", "--model", "nope", "--out", "o"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_tells_a_wrong_path_before_anything_heavy_is_imported(name: str, tmp_path: Path) -> None:
    script = (
        f"import sys; sys.argv = ['concord', *{COMMANDS[name]!r}]\n"
        "from concord.flows.cli.app import app\n"
        "try: app()\n"
        f"except SystemExit as left: print(left.code, {HEAVY!r} & set(sys.modules))"
    )
    assert said(script, folder=tmp_path, HOME=str(tmp_path)) == "3 set()"


def test_a_list_waits_for_nothing_that_labels_mines_or_tracks() -> None:
    script = (
        "import sys; sys.argv = ['concord', 'list', 'engines', '--json']\n"
        "from concord.flows.cli.app import app\n"
        "try: app()\n"
        "except SystemExit: print({'mlflow', 'ortools', 'prefect', 'ray', 'scipy.stats'} & set(sys.modules))"
    )
    assert said(script).splitlines()[-1] == "set()"


@pytest.mark.parametrize(
    ("env", "profile", "watched"),
    [
        ({}, None, False),
        ({"PREFECT_API_URL": "http://127.0.0.1:9/api"}, None, True),
        ({}, 'active = "mine"\n[profiles.mine]\nPREFECT_API_URL = "http://127.0.0.1:9/api"\n', True),
        ({}, 'active = "ephemeral"\n[profiles.local]\nPREFECT_API_URL = "http://127.0.0.1:9/api"\n', False),
    ],
)
def test_prefect_watches_where_an_api_is_configured_and_nowhere_else(
    env: dict[str, str], profile: str | None, *, watched: bool, tmp_path: Path
) -> None:
    if profile is not None:
        (tmp_path / "profiles.toml").write_text(profile)
    script = "from concord.flows.watched import is_watched; print(is_watched())"
    assert said(script, folder=tmp_path, PREFECT_HOME=str(tmp_path), **env) == str(watched)


@pytest.mark.parametrize(
    ("given", "variable", "address"),
    [
        (None, None, None),
        (None, "", None),
        (None, "10.0.0.1:6379", "10.0.0.1:6379"),
        ("auto", "10.0.0.1:6379", "auto"),
        ("local", "10.0.0.1:6379", None),
        (None, "local", None),
        ("auto", "local", "auto"),
    ],
)
def test_a_run_is_on_the_cluster_that_is_named_or_on_that_of_rays_variable(
    given: str | None, variable: str | None, address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if variable is not None:
        monkeypatch.setenv("RAY_ADDRESS", variable)
    assert ray_address(given) == address
