"""Tables of the docs say what the results of benchmarks have, and sweep files of benchmarks can be read."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from concord.schemas.published import PAIRS, Lies
from concord.workers.sweeps.cells import cells_of
from concord.workers.sweeps.sweep_file import read_sweep_file

ROOT = Path(__file__).parents[1]
SWEEPS = sorted((ROOT / "benchmarks" / "sweeps").glob("*.yaml"))


def check(root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "benchmarks" / "figures.py"), "--check"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_every_table_has_the_figures_of_its_results() -> None:
    found = check(ROOT)
    assert found.returncode == 0, found.stdout + found.stderr


def test_a_figure_that_differs_and_a_table_without_a_page_are_told(tmp_path: Path) -> None:
    for folder, pattern in (("benchmarks", "*.py"), ("benchmarks/results", "*"), ("docs", "*.md")):
        (tmp_path / folder).mkdir()
        for path in (ROOT / folder).glob(pattern):
            shutil.copy(path, tmp_path / folder)
    assert check(tmp_path).returncode == 0
    page = tmp_path / "benchmarks" / "results" / "runs.md"
    text = page.read_text()
    page.write_text(text.replace("| SIGTERM | 2 |", "| SIGTERM | 3 |"))
    found = check(tmp_path)
    assert found.returncode == 1
    assert "runs.md" in found.stdout
    assert "| SIGTERM | 2 | 2 | 143 |" in found.stdout
    page.write_text(re.sub(r"<!-- figures: \S+ -->", "", text))
    found = check(tmp_path)
    assert found.returncode == 1
    assert "no page has " in found.stderr
    assert "failpoint-faults, failpoint-steps, faults" in found.stderr


def test_a_published_figure_above_ours_has_a_reason() -> None:
    """Beside each row of which the published figure lies above our interval the page says why, or what was tried."""
    (found,) = [json.loads(path.read_text()) for path in (ROOT / "benchmarks" / "results").glob("papers.json")]
    rows = [(table, row) for table in found["tables"] for row in table["rows"] if row["lies"] == Lies.ABOVE]
    assert rows
    without = [f"{table['paper']}, {table['table']}: {row['name']}" for table, row in rows if not _reason(table, row)]
    assert not without


def _reason(table: dict[str, Any], row: dict[str, Any]) -> str:
    """The note of a row; of counts of pairs, that of their table."""
    return (table if row["figure"] == PAIRS else row)["note"] or ""


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_a_sweep_file_has_no_mistakes_and_its_figures_are_kept(path: Path, tmp_path: Path) -> None:
    """Word lists, vectors and encoders that the file names are made by hand or not public: empty ones stand in."""
    copied = tmp_path / "concord" / "benchmarks" / "sweeps" / path.name
    copied.parent.mkdir(parents=True)
    shutil.copy(path, copied)
    for name in re.findall(
        r"(?:\.\./)+(?:[\w./-]+\.(?:parquet|npy|tsv|txt)|build/benchmarks/minilm)", path.read_text()
    ):
        stand_in = (copied.parent / name).resolve()
        stand_in.parent.mkdir(parents=True, exist_ok=True)
        stand_in.touch()
    for name in ("concord", "infra"):
        (tmp_path / "concord" / name).symlink_to(ROOT / name)
    assert cells_of(read_sweep_file(copied))
    assert f'"{path.stem}": Shown(' in (ROOT / "benchmarks" / "sweeps.py").read_text()
    named = set(re.findall(r"build/benchmarks/corpora/([\w-]+)", path.read_text()))
    whole = {name.removesuffix("-before").removesuffix("-after") for name in named}
    assert not [name for name in whole if f'"{name}": Source(' not in (ROOT / "benchmarks" / "corpora.py").read_text()]
