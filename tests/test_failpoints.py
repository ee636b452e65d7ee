"""A dozen of the faults of `benchmarks/bench_failpoints.py`, other ones each day."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "bench_failpoints.py"


def test_a_dozen_faults_lose_nothing() -> None:
    """In a process of its own: it forks, which a client of an object store does not outlive."""
    seed = datetime.now(UTC).toordinal()
    command = [sys.executable, str(SCRIPT), "--sample", "12", "--seed", str(seed)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert ended.returncode == 0, f"{' '.join(command)}\n{ended.stdout}\n{ended.stderr[-3000:]}"
    assert "12 of 12 held" in ended.stdout


MUTANT = """
import sys
sys.argv = ["bench", "--cell", "folder", "publish", "kill", "1"]
sys.path.insert(0, {folder!r})
import bench_failpoints
from concord.flows.runfolder.folder_output import FolderOutput
show = FolderOutput.show
def gone_first(out, run):
    (out.root / "manifest.json").unlink(missing_ok=True)
    show(out, run)
FolderOutput.show = gone_first
bench_failpoints.main()
"""


def test_a_run_that_takes_the_last_one_away_before_it_shows_its_own_is_found() -> None:
    command = [sys.executable, "-c", MUTANT.format(folder=str(SCRIPT.parent))]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert ended.returncode == 1, ended.stderr[-3000:]
    assert "folder publish kill 1: readers see neither the run before nor the new one" in ended.stdout
