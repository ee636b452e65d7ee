"""The wheel away from the checkout: it has the files of `concord init`, and kernels that are not compiled again."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from concord.workers.compiling.kernel_folder import PREFIX

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]

HERE = """
import sys, pathlib
sys.path = [p for p in sys.path if p not in ('', sys.argv[1])]
import concord
assert pathlib.Path(concord.__file__).is_relative_to(sys.argv[2]), concord.__file__
from concord.flows.cli.app import app
app(sys.argv[3:])
"""
"""Runs a command of the package that is installed in the second folder, without the first one."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder where the wheel is installed."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, ROOT / "infra" / "wheel.py", "--out", folder], check=True)
    (wheel,) = folder.glob(f"concord_nlp-*-cp{sys.version_info.major}{sys.version_info.minor}-none-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder / "site")
    return folder / "site"


def run(site: Path, user: Path, *arguments: str) -> str:
    """Runs a command in the folder ``user``, which has a package ``workers`` of its own."""
    (user / "workers").mkdir(parents=True, exist_ok=True)
    (user / "workers" / "__init__.py").write_text("raise AssertionError('mine')")
    left = {name: text for name, text in os.environ.items() if not name.startswith("NUMBA_")}
    done = subprocess.run(
        [sys.executable, "-c", HERE, str(ROOT), str(site), *arguments],
        cwd=user,
        env=left | {"PYTHONPATH": str(site), "NUMBA_CACHE_DIR": str(user / "numba")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def kernels(folder: Path) -> set[str]:
    return {path.name for path in folder.glob(f"{PREFIX}*/*.nbi")}


def test_files_to_start_with_are_in_it(site: Path, tmp_path: Path) -> None:
    run(site, tmp_path, "init", "--out", "nights")
    assert {path.name for path in (tmp_path / "nights").iterdir()} == {
        "prefect.yaml",
        "constraints.yaml",
        "constraints.schema.json",
        "night.yaml",
    }
    assert (site / "concord" / "workers" / "constraints" / "shipped" / "citations.yaml").is_file()


def test_runs_compile_nothing(site: Path, tmp_path: Path) -> None:
    shipped = kernels(site / "concord" / "workers" / "compiling" / "kernels")
    assert len(shipped) > 200
    run(site, tmp_path, "synthesize", "--documents", "20", "--out", "corpus")
    run(site, tmp_path, "train", "--corpus", "corpus", "--features", "core", "--out", "model")
    for engine in ("gibbs", "certify"):
        run(site, tmp_path, "reprocess", "--corpus", "corpus", "--model", "model", "--engine", engine, "--out", engine)
    assert kernels(tmp_path / "numba") == shipped
