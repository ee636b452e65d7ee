"""What a run's own Ray leaves behind is ended, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

DRIVER = """
import sys, time
from pathlib import Path
from concord.flows.cluster.guard import guarded
with guarded(Path(sys.argv[1])):
    print("guarded", flush=True)
    time.sleep({seconds})
"""


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="this system has no /proc")
@pytest.mark.parametrize("how", ["killed", "in good order"])
def test_rays_agents_with_files_of_the_folder_end_soon_after_the_driver(how: str, tmp_path: Path) -> None:
    ours, others = tmp_path / "a", tmp_path / "ab"
    held = []
    for folder, name in ((ours, "ray::Agent"), (others, "ray::Agent"), (ours, "notebook")):
        folder.mkdir(exist_ok=True)
        with (folder / "log").open("a") as log:
            held.append(subprocess.Popen([name, "60"], executable="/bin/sleep", stderr=log))
    left, *stays = held
    seconds = 60 if how == "killed" else 0.5
    script = DRIVER.format(seconds=seconds)
    with subprocess.Popen([sys.executable, "-c", script, str(ours)], stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "guarded\n"
        time.sleep(0.3)
        assert left.poll() is None
        if how == "killed":
            os.kill(driver.pid, signal.SIGKILL)
    try:
        assert left.wait(30) == -signal.SIGKILL
        time.sleep(0.5)
        assert [process.poll() for process in stays] == [None, None]
    finally:
        for process in stays:
            process.kill()
            process.wait()
