"""Places as the user gives them."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.jobs import corpus_place, folder_place
from flows.runfolder import RunFolderError


def test_paths_become_absolute_and_uris_stay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert corpus_place("a/b") == folder_place("a/b") == str(tmp_path / "a" / "b")
    assert corpus_place("~/c") == folder_place("~/c") == str(tmp_path / "home" / "c")
    assert corpus_place("s3://bucket/corpus") == "s3://bucket/corpus"


@pytest.mark.parametrize("out", ["s3://bucket/out", str(Path("s3://bucket/out")), "file:///out"])
def test_output_needs_a_folder(out: str) -> None:
    with pytest.raises(RunFolderError, match="not a URI"):
        folder_place(out)
