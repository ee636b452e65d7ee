"""Ends the processes that a run's own Ray leaves behind when its driver or its head is killed.

Ray's agents outlive their node by a minute or more if nothing receives their last message.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SWEEP = """
exec 3<&0  # what is in the background has no other input
{
    read -r _ <&3
    for pause in 2 3 5; do
        sleep "$pause"
        ls -l /proc/[0-9]*/fd 2>/dev/null |
            awk -v folder=" -> $0/" '/^[/]proc/ {split($0, at, "/")} index($0, folder) {print at[3]}' |
            sort -u |
            while read -r pid; do
                grep -q "^ray::" "/proc/$pid/cmdline" 2>/dev/null && kill -KILL "$pid" 2>/dev/null
            done
    done
} &
"""
"""In the background, waits until its input ends, as it does when the process at the other end is gone, however that
went. Then ends Ray's agents and workers that have files of the folder ``$0`` open, which is one run's alone.
"""


@contextmanager
def guarded(folder: Path) -> Iterator[None]:
    """Ends agents and workers that have files in ``folder`` open, some seconds after the block or after the death of
    this process.

    Without ``/proc`` (on other systems than Linux) nothing is done.
    """
    guard = subprocess.Popen(  # noqa: S603 — the command is the constant above and a path
        ("/bin/sh", "-c", _SWEEP, str(folder)),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert guard.stdin is not None
    guard.wait()
    with guard.stdin:
        yield
