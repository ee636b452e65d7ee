"""Processes below another one, as Linux lists them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path


def descendants(pid: int) -> list[int]:
    """All processes below ``pid``."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # ended meanwhile
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, left = [], [pid]
    while left:
        children = parents.get(left.pop(), [])
        found += children
        left += children
    return found


def command_line(pid: int) -> str:
    """The process's command line; empty where it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def workers_of(pid: int) -> list[int]:
    """The Ray actors below a driver."""
    return [p for p in descendants(pid) if command_line(p).startswith("ray::ShardWorker")]


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str], *, seconds: float = 120) -> None:
    """Waits for what ``process`` is to bring about."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, f"ended too early: {process.communicate()}"
        assert time.monotonic() < deadline, "took too long"
        time.sleep(0.02)


def gone(pids: list[int], *, seconds: float) -> list[int]:
    """Those of the processes that are still there after ``seconds``."""
    deadline = time.monotonic() + seconds
    left = pids
    while left and time.monotonic() < deadline:
        left = [p for p in left if _runs(p)]
        time.sleep(0.1)
    return left


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
