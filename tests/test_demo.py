"""What `make demo` prints to be typed can be typed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from concord.flows.cli import demo


def test_printed_commands_work_in_a_shell_that_knows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither the demonstration's ``CONCORD_HOME`` nor its Python's folder need be set by hand."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONCORD_HOME", "demo/.concord")
    monkeypatch.setattr(demo, "TRAINING", 3)
    monkeypatch.setattr(demo, "TEST", 2)
    demo._make_corpora()
    printed = capsys.readouterr().out
    typed = [line.removeprefix("$ ") for line in printed.splitlines() if line.startswith("$ ")]
    assert len(typed) == 2
    made = {path: path.read_bytes() for path in (tmp_path / "demo").rglob("*.parquet")}
    assert made
    for path in made:
        path.unlink()
    for command in typed:
        assert command.startswith("CONCORD_HOME=demo/.concord ")
        done = subprocess.run(  # the printed line itself
            command, shell=True, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
    again = {path: path.read_bytes() for path in (tmp_path / "demo").rglob("*.parquet")}
    assert sorted(again) == sorted(made)
