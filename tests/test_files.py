"""Files and folders take the place of others as a whole, and are on the disk before they do."""

from __future__ import annotations

import ast
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import concord
from concord.workers.storage.files import TEMPORARY, OutputError, point, staged, whole_file, write_whole
from tests.support.kills import killed_before


def write_folder(target: Path, text: str) -> None:
    with staged(target) as folder:
        for name in ("a", "b"):
            (folder / name).write_text(text)


def texts(folder: Path) -> list[str]:
    return [path.read_text() for path in sorted(folder.iterdir())] if folder.exists() else []


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("before", [[], ["old", "old"]])
def test_a_folder_is_the_old_one_or_the_new_one_after_a_kill_at_any_step(tmp_path: Path, before: list[str]) -> None:
    states, step, killed = set(), 0, True
    while killed:
        step += 1
        target = tmp_path / str(step) / "out"
        if before:
            write_folder(target, "old")
        killed = killed_before(step, lambda target=target: write_folder(target, "new"))  # type: ignore[misc]
        found = texts(target)
        assert found in (before, ["new", "new"], [])
        if not found and before:  # between two renames the old folder stands beside its place
            assert texts(target.with_name(".out.old")) == before
        states.add(tuple(found))
        with pytest.raises(ValueError, match="stop"), staged(target):
            raise ValueError("stop")
        assert texts(target) in (before, ["new", "new"])
        write_folder(target, "next")
        assert texts(target) == ["next", "next"]
        assert [path.name for path in target.parent.iterdir()] == ["out"]
    assert {tuple(before), ("new", "new")} <= states
    assert step > 4


def test_a_folder_whose_last_rename_fails_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    write_folder(out, "old")
    replace = Path.replace

    def fail_at_the_last(self: Path, target: Path) -> Path:
        if self.name.endswith(".partial"):
            raise OSError(5, "Input/output error", str(self))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", fail_at_the_last)
    with pytest.raises(OutputError, match=rf"^{out}: cannot be written \(Input/output error\)[^\n]*$"):
        write_folder(out, "new")
    assert texts(out) == ["old", "old"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_names_itself_where_writing_fails_and_not_where_reading_does(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for bad in ("missing/a", "/dev/full"):  # an error that names a file in the making, and one that names none
        with pytest.raises(OutputError, match=rf"^{out}: cannot be written"), staged(out) as folder:
            (folder / bad).write_text("x" * 100)
    with pytest.raises(FileNotFoundError, match="source"), staged(out):
        (tmp_path / "source").read_text()
    assert list(tmp_path.iterdir()) == []


def test_a_file_names_itself_where_writing_fails_and_not_where_reading_does(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(OutputError, match=rf"^{out}: cannot be written"), whole_file(out):
        raise OSError(28, "No space left on device")  # as a writer of Parquet has it
    with pytest.raises(FileNotFoundError, match="source"), whole_file(out):
        (tmp_path / "source").read_text()
    assert list(tmp_path.iterdir()) == []


def write_parts(path: Path, data: bytes) -> None:
    with whole_file(path) as file:
        file.write(data)


def write_new_folder(target: Path, _: bytes) -> None:
    write_folder(target, "new")


FILES: tuple[Callable[[Path, bytes], None], ...] = (write_whole, write_parts)


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize(
    ("way", "makes"),
    [(way, makes) for way in FILES for makes in (os.mkfifo, Path.mkdir)]
    + [(write_new_folder, makes) for makes in (os.mkfifo, Path.touch)],
)
def test_what_is_there_and_is_no_file_or_no_folder_stays(
    way: Callable[[Path, bytes], None], makes: Callable[[Path], None], linked: bool, tmp_path: Path
) -> None:
    makes(tmp_path / "out")
    (tmp_path / "link").symlink_to("out")
    before = sorted((path.name, path.lstat().st_mode, path.lstat().st_ino) for path in tmp_path.iterdir())
    with pytest.raises(OutputError, match=rf"^{tmp_path}/(out|link): is [^\n]*; give a [^\n]*$"):
        way(tmp_path / ("link" if linked else "out"), b"new")
    assert sorted((path.name, path.lstat().st_mode, path.lstat().st_ino) for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("way", FILES)
def test_the_file_behind_a_link_is_written_and_the_link_stays(
    way: Callable[[Path, bytes], None], tmp_path: Path
) -> None:
    (tmp_path / "far").mkdir()
    for name in ("there", "new"):
        link, real = tmp_path / name, tmp_path / "far" / name
        link.symlink_to(Path("far") / name)
        (tmp_path / "far" / "there").write_bytes(b"old")
        way(link, b"whole")
        assert (link.is_symlink(), real.is_symlink(), real.read_bytes()) == (True, False, b"whole")
    assert sorted(path.name for path in (tmp_path / "far").iterdir()) == ["new", "there"]
    with pytest.raises(OutputError, match=r"^\.: is a folder; give a file$"):
        way(Path(), b"")
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(OutputError, match="Too many levels"):
        way(tmp_path / "circle", b"")
    assert (tmp_path / "circle").is_symlink()


def test_no_block_of_somebody_else_is_taken_for_writing() -> None:
    """A context manager that hands on inside of `writing` calls all that fails in its block an error of writing."""
    for path in Path(concord.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.With) and any(ast.unparse(one).startswith("writing(") for one in node.items):
                handed_on = [one.lineno for one in ast.walk(node) if isinstance(one, ast.Yield | ast.YieldFrom)]
                assert not handed_on, f"{path}:{handed_on}"


def test_all_is_on_the_disk_before_its_name_is_and_the_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen by inode: files, then their folder, then the rename, then the folder with the new name."""
    steps: list[tuple[str, int]] = []
    replace, fsync = Path.replace, os.fsync

    def note_replace(self: Path, target: Path) -> Path:
        steps.append(("rename", self.lstat().st_ino))
        return replace(self, target)

    def note_fsync(handle: int) -> None:
        steps.append(("sync", os.fstat(handle).st_ino))
        fsync(handle)

    monkeypatch.setattr(Path, "replace", note_replace)
    monkeypatch.setattr(os, "fsync", note_fsync)
    here = tmp_path.stat().st_ino
    write_whole(tmp_path / "file", b"x")
    new = (tmp_path / "file").stat().st_ino
    assert steps == [("sync", new), ("rename", new), ("sync", here)]
    steps.clear()
    point(tmp_path / "link", "file")
    assert steps == [("rename", (tmp_path / "link").lstat().st_ino), ("sync", here)]
    steps.clear()
    write_folder(tmp_path / "out", "new")
    new = (tmp_path / "out").stat().st_ino
    inside = {("sync", path.stat().st_ino) for path in (tmp_path / "out").iterdir()}
    assert (set(steps[:2]), steps[2:]) == (inside, [("sync", new), ("rename", new), ("sync", here)])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_what_a_killed_process_left_is_taken_up_by_the_next(tmp_path: Path) -> None:
    """Whichever step it was killed before, the same command leaves one file, and nothing beside it."""
    path, step, left = tmp_path / "rules.yaml", 0, 0
    while True:
        step += 1
        killed = killed_before(step, lambda: write_whole(path, b"new"))
        left += any(tmp_path.glob(f"{TEMPORARY}*"))
        write_whole(path, b"again")
        assert [other.name for other in tmp_path.iterdir()] == [path.name]
        assert path.read_bytes() == b"again"
        if not killed:
            break
    assert left > 0


def test_two_at_one_file_do_not_meet(tmp_path: Path) -> None:
    """Who finds another at work takes a name of its own, and no file is ever half of one and half of the other."""
    path, data = tmp_path / "file", [bytes([65 + i]) * 200_000 for i in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: write_whole(path, data[i % 4]), range(60)))
    assert path.read_bytes() in data
    assert [other.name for other in tmp_path.iterdir()] == [path.name]


def test_a_file_that_cannot_be_written_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_whole(tmp_path / "file", b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match=rf"^{tmp_path / 'file'}: cannot be written \(No space left on device\)"):
        write_whole(tmp_path / "file", b"new")
    assert texts(tmp_path) == ["old"]
    shutil.rmtree(tmp_path)
