"""Compiled kernels are never stale, wherever they can be kept."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from workers.compiling import kernel_folder
from workers.compiling.code import ROOT
from workers.compiling.kernel_folder import KEPT, KNOWN, PREFIX, USED, _hold, _remove_unused

CALLED = """
from workers.compiling.kernel import kernel

@kernel
def called(x):
    return x + 1
"""

CALLING = """
from workers.called import called
from workers.compiling.kernel import FOLDER, kernel

@kernel
def calling(x):
    return called(x)

print(calling(1), sum(calling.stats.cache_hits.values()), FOLDER)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The project with two kernels more, one of which calls the other."""
    for package in ("schemas", "workers"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "workers" / "called.py").write_text(CALLED)
    (tmp_path / "workers" / "calling.py").write_text(CALLING)
    return tmp_path


def run(tree: Path, **variables: str) -> tuple[int, int, Path]:
    """What `calling(1)` gives in a process of its own, whether it was compiled before, and the folder."""
    left = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
    ended = subprocess.run(
        [sys.executable, "-B", "-c", "import workers.calling"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tree,
        env=left | variables,
    )
    assert ended.returncode == 0, ended.stderr
    value, hits, folder = ended.stdout.split()
    return int(value), int(hits), Path(folder)


def test_a_change_in_a_kernel_that_another_file_calls_is_seen(tree: Path) -> None:
    first, _, folder = run(tree)
    assert (first, folder.parent) == (2, tree / "workers" / "__pycache__")
    assert run(tree) == (2, 1, folder)
    (tree / "workers" / "called.py").write_text(CALLED.replace("x + 1", "x + 10"))
    value, _, other = run(tree)
    assert value == 11
    assert other != folder


def test_a_comment_compiles_nothing_that_it_does_not_stand_beside(tree: Path) -> None:
    first = run(tree)
    (tree / "workers" / "called.py").write_text(CALLED + "# A comment.\n")
    assert run(tree) == (2, 1, first[2])


def test_what_numba_is_told_has_folders_of_its_own(tree: Path) -> None:
    assert run(tree)[2] != run(tree, NUMBA_BOUNDSCHECK="1")[2]


def test_the_folder_that_is_asked_for_is_used(tree: Path, tmp_path: Path) -> None:
    assert run(tree, NUMBA_CACHE_DIR=str(tmp_path / "asked"))[2].parent == tmp_path / "asked"


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two places for folders; the first can only be read."""
    image, home = tmp_path / "image", tmp_path / "home"
    monkeypatch.setattr(kernel_folder, "_places", lambda: iter((image, home)))
    monkeypatch.setattr(kernel_folder, "_hold", lambda folder: folder.parent == home and _hold(folder))
    return image, home


def test_a_warm_folder_that_cannot_be_written_is_copied(places: tuple[Path, Path]) -> None:
    image, home = places
    name = kernel_folder.kernel_folder().name
    shutil.rmtree(home)
    (image / name / "part").mkdir(parents=True)
    (image / name / "part" / "kernel.nbc").write_bytes(b"compiled")
    assert kernel_folder.kernel_folder() == home / name
    assert (home / name / "part" / "kernel.nbc").read_bytes() == b"compiled"
    assert [path.name for path in home.iterdir()] == [name]


def test_what_is_newer_than_the_copy_stays(places: tuple[Path, Path]) -> None:
    image, _ = places
    folder = kernel_folder.kernel_folder()
    (folder / "kernel.nbc").write_bytes(b"newer")
    (image / folder.name).mkdir(parents=True)
    (image / folder.name / "kernel.nbc").write_bytes(b"older")
    assert kernel_folder.kernel_folder() == folder
    assert (folder / "kernel.nbc").read_bytes() == b"newer"


def test_where_nothing_can_be_written_a_process_compiles_for_itself(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_folder, "_places", lambda: iter(places[:1]))
    folder = kernel_folder.kernel_folder()
    assert folder.is_dir()
    assert folder != kernel_folder.kernel_folder()


def folders(place: Path, count: int) -> list[Path]:
    """So many folders, the one used last first."""
    made = [place / f"{PREFIX}{number}" for number in range(count)]
    for age, folder in enumerate(made):
        folder.mkdir()
        (folder / USED).touch()
        (folder / "kernel.nbi").touch()
        os.utime(folder / USED, (1e9 - age, 1e9 - age))
    return made


def test_folders_that_no_process_uses_are_removed(tmp_path: Path) -> None:
    made = folders(tmp_path, KEPT + 3)
    (tmp_path / "other").mkdir()
    with (made[-1] / USED).open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        _remove_unused(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([*made[:KEPT], made[-1], tmp_path / "other"])


def test_a_folder_that_is_held_stays(tmp_path: Path) -> None:
    made = folders(tmp_path, KEPT + 1)
    assert _hold(made[-1])
    os.utime(made[-1] / USED, (1.0, 1.0))
    _remove_unused(tmp_path)
    assert made[-1].exists()


def test_what_was_worked_out_for_the_same_files_is_not_worked_out_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def digest() -> str:
        asked.append("digest")
        return f"of {len(asked)}"

    sources = ["one"]
    monkeypatch.setattr(kernel_folder, "_places", lambda: iter([tmp_path / "read-only", tmp_path / "kept"]))
    monkeypatch.setattr(kernel_folder, "kernels_digest", digest)
    monkeypatch.setattr(kernel_folder, "sources_digest", lambda: sources[0])
    (tmp_path / "read-only").write_text("no folder")
    first = kernel_folder._state()
    assert [kernel_folder._state() for _ in range(3)] == [first] * 3
    assert len(asked) == 1
    sources[0] = "other"
    assert kernel_folder._state() != first
    assert kernel_folder._known_kernels() == "of 2"
    (tmp_path / "kept" / KNOWN).write_bytes(b"\xff\xfe")
    assert kernel_folder._known_kernels() is None
    assert [path.name for path in (tmp_path / "kept").iterdir()] == [KNOWN]
