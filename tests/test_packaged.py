"""What is built from the source has all files of the package, in whatever way the source came."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no git repository to take the source from")

BUILD = "import sys; from setuptools import build_meta; build_meta.build_{}(sys.argv[1])"
VERSION = "from concord.flows.cli.app import app; app(['--version'])"


def git(*arguments: str | Path) -> str:
    command = ["git", "-C", str(ROOT), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout


def built(kind: str, source: Path, out: Path) -> Path:
    """The ``wheel`` or ``sdist`` of a folder."""
    out.mkdir()
    command = [sys.executable, "-c", BUILD.format(kind), str(out)]
    subprocess.run(command, cwd=source, capture_output=True, check=True)
    (file,) = out.iterdir()
    return file


def cloned(folder: Path) -> Path:
    git("clone", "--quiet", ROOT, folder / "clone")
    return folder / "clone"


def cloned_without_links(folder: Path) -> Path:
    git("-c", "core.symlinks=false", "clone", "--quiet", ROOT, folder / "plain")
    assert not [path for path in (folder / "plain").rglob("*") if path.is_symlink()]
    return folder / "plain"


def downloaded(folder: Path) -> Path:
    """The zip archive that hosts of repositories offer."""
    git("archive", "--format", "zip", "--output", folder / "source.zip", "HEAD")
    with zipfile.ZipFile(folder / "source.zip") as archive:
        archive.extractall(folder / "zip")
    return folder / "zip"


def distributed(folder: Path) -> Path:
    """A source distribution."""
    with tarfile.open(built("sdist", cloned(folder), folder / "sdist")) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (source,) = (folder / "unpacked").iterdir()
    return source


@pytest.mark.parametrize("source", [cloned, cloned_without_links, downloaded, distributed])
def test_a_wheel_has_every_file(source: Callable[[Path], Path], tmp_path: Path) -> None:
    files = set(git("ls-tree", "-r", "--name-only", "HEAD", "concord").splitlines())
    assert len(files) > 500
    with zipfile.ZipFile(built("wheel", source(tmp_path), tmp_path / "out")) as wheel:
        assert {name for name in wheel.namelist() if name.startswith("concord/")} == files
        assert all(wheel.read(name) == git("show", f"HEAD:{name}").encode() for name in sorted(files)[::50])
        wheel.extractall(tmp_path / "site")
    env = os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    shown = subprocess.run(
        [sys.executable, "-c", VERSION], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("concord ")


def test_a_file_has_one_address() -> None:
    """Links lead into the package, and none lies in it."""
    links = [line.split("\t")[1] for line in git("ls-tree", "-r", "HEAD").splitlines() if line.startswith("120000")]
    assert sorted(links) == ["flows", "infra/constraints", "infra/prefect.yaml", "schemas", "workers"]
    assert all((ROOT / link).resolve().is_relative_to(ROOT / "concord") for link in links)
