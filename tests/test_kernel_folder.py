"""Compiled kernels are never stale, wherever they can be kept."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from concord.workers.compiling import kernel_folder as module
from concord.workers.compiling.kernel_folder import (
    KEPT_DAYS,
    LETTERS,
    PREFIX,
    kept_for_sources,
    kernel_folder,
    known_digests,
)
from concord.workers.compiling.kernel_folder import _can_be_written as can_be_written
from tests.support.copied import copied

CALLED = """
from concord.workers.compiling.kernel import kernel

@kernel
def called(x):
    return x + 1
"""

CALLING = """
from concord.workers.called import called
from concord.workers.compiling.kernel import kernel
from concord.workers.compiling.kernel_folder import kernel_folder

@kernel
def calling(x):
    return called(x)

print(calling(1), sum(calling.stats.cache_hits.values()), kernel_folder())
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Folder of the package with two kernels more, one of which calls the other."""
    package = copied(tmp_path)
    (package / "workers" / "called.py").write_text(CALLED)
    (package / "workers" / "calling.py").write_text(CALLING)
    return package


def run(tree: Path, **variables: str) -> tuple[int, int, Path]:
    """What `calling(1)` gives in a process of its own, whether it was compiled before, and the folder."""
    left = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
    ended = subprocess.run(
        [sys.executable, "-B", "-c", "import concord.workers.calling"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tree.parent,
        env=left | variables,
    )
    assert ended.returncode == 0, ended.stderr
    value, hits, folder = ended.stdout.split()
    return int(value), int(hits), Path(folder)


def test_a_kernel_is_compiled_again_where_what_it_holds_has_changed(tree: Path) -> None:
    first, _, folder = run(tree)
    assert (first, folder.parent) == (2, tree / "workers" / "__pycache__")
    assert run(tree) == (2, 1, folder)
    (tree / "workers" / "called.py").write_text(CALLED.replace("x + 1", "x + 10"))
    assert run(tree) == (11, 0, folder)
    (tree / "workers" / "called.py").write_text(CALLED)
    assert run(tree) == (2, 1, folder), "the former code is still there"


def test_what_no_kernel_holds_compiles_nothing(tree: Path) -> None:
    first = run(tree)
    (tree / "workers" / "called.py").write_text("# A comment.\n" + CALLED + "\ndef beside() -> int:\n    return 1\n")
    settings = tree / "schemas" / "settings.py"
    settings.write_text(settings.read_text() + "\nNEW = 1\n")
    assert run(tree) == (2, 1, first[2])


def test_what_numba_is_told_has_folders_of_its_own(tree: Path) -> None:
    assert run(tree)[2] != run(tree, NUMBA_BOUNDSCHECK="1")[2]


def test_the_folder_that_is_asked_for_is_used(tree: Path, tmp_path: Path) -> None:
    assert run(tree, NUMBA_CACHE_DIR=str(tmp_path / "asked"))[2].parent == tmp_path / "asked"


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, Path]]:
    """Two places for folders; the first can only be read."""
    image, home = tmp_path / "image", tmp_path / "home"
    monkeypatch.setattr(module, "_places", lambda: iter((image, home)))
    monkeypatch.setattr(module, "_can_be_written", lambda folder: folder.parent == home and can_be_written(folder))
    kernel_folder.cache_clear()
    yield image, home
    kernel_folder.cache_clear()
    known_digests.cache_clear()


def test_what_a_folder_that_cannot_be_written_has_is_copied_where_it_is_missing(places: tuple[Path, Path]) -> None:
    image, home = places
    name = kernel_folder().name
    (image / name).mkdir(parents=True)
    for kernel in ("kernel.nbc", "other.nbc"):
        (image / name / kernel).write_bytes(b"of the image")
    (home / name / "other.nbc").write_bytes(b"newer")
    kernel_folder.cache_clear()
    assert kernel_folder() == home / name
    assert {path.name: path.read_bytes() for path in (home / name).iterdir()} == {
        "kernel.nbc": b"of the image",
        "other.nbc": b"newer",
    }


def test_where_nothing_can_be_written_a_process_compiles_for_itself(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_places", lambda: iter(places[:1]))
    folder = kernel_folder()
    assert folder.is_dir()
    assert folder == kernel_folder(), "one folder a process"
    kernel_folder.cache_clear()
    assert folder != kernel_folder()


def test_digests_are_worked_out_once_for_the_same_sources(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, sources = [], ["one" * 10]

    def digests() -> dict[str, str]:
        asked.append("digests")
        return {"kernel": f"{len(asked)}" * 64}

    monkeypatch.setattr(module, "kernel_digests", digests)
    monkeypatch.setattr(module, "sources_digest", lambda: sources[0])
    folder = kernel_folder()

    def known() -> dict[str, str]:
        known_digests.cache_clear()
        return known_digests(folder)

    assert [known() for _ in range(3)] == [{"kernel": "1" * 64}] * 3
    sources[0] = "other" * 10
    assert known() == {"kernel": "2" * 64}
    (path,) = folder.glob(f"{sources[0][:LETTERS]}.json")
    path.write_bytes(b"\xff\xfe")
    assert known() == {"kernel": "3" * 64}, "a damaged file is replaced"


def test_text_is_worked_out_once_for_the_same_sources(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, sources = list[str](), ["one" * 10]
    monkeypatch.setattr(module, "sources_digest", lambda: sources[0])

    def kept(name: str) -> str:
        asked.append(name)
        return kept_for_sources(name, lambda: str(len(asked)))

    assert [kept(name) for name in ("a" * 64, "b" * 64, "a" * 64, "b" * 64)] == ["1", "2", "1", "2"]
    sources[0] = "other" * 10
    assert kept("a" * 64) == "5"
    (path,) = kernel_folder().glob(f"{sources[0][:LETTERS]}-*.txt")
    for damage in (b"\xff\xfe", b"", path.read_bytes().replace(b"5", b"6")):
        path.write_bytes(damage)
        worked_out = kept("a" * 64)
        assert worked_out == str(len(asked)), "a damaged file is replaced"
        assert kept("a" * 64) == worked_out


def test_old_files_of_other_code_are_removed(places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    _, home = places
    monkeypatch.setattr(module, "kernel_digests", lambda: {"kernel": "c" * 64})
    folder = kernel_folder()
    old = time.time() - (KEPT_DAYS + 1) * 24 * 3600
    for place in (folder, home / f"{PREFIX}of-another-compiler"):
        place.mkdir(exist_ok=True)
        for name, when in {
            "used-" + "c" * LETTERS: old,
            "gone-" + "d" * LETTERS: old,
            "new-" + "e" * LETTERS: None,
        }.items():
            (place / name).touch()
            if when:
                os.utime(place / name, (when, when))
    known_digests(folder)
    left = {path.name.partition("-")[0] for path in home.glob("*/*") if path.suffix != ".json"}
    assert left == {"used", "new"}
